# SPDX-License-Identifier: Apache-2.0
"""Plane-wave ultrasound: frames of fifteen steered shots are beamformed and compounded on the GPU."""
import time

import cupy
import numpy as np

cupy.get_default_memory_pool().set_limit(size=12 * 2**30)

ANGLES = np.deg2rad(np.linspace(-14, 14, 15)).astype(np.float32)
ELEMENTS, SAMPLES = 128, 4096
ROWS, COLUMNS = 2048, 1024
SPEED, RATE, PITCH = 1540.0, 40e6, 0.3e-3

depth = (cupy.arange(ROWS, dtype=cupy.float32) * 25e-6)[:, None]
across = ((cupy.arange(COLUMNS, dtype=cupy.float32) - COLUMNS / 2) * 40e-6)[None, :]


def analytic(signal):
    """Complex signal of each element, through the spectrum."""
    spectrum = cupy.fft.fft(signal, axis=1)
    spectrum[:, SAMPLES // 2:] = 0
    return cupy.fft.ifft(2 * spectrum, axis=1).astype(cupy.complex64)


def beamform(iq, angle, every=16):
    image = cupy.zeros((ROWS, COLUMNS), cupy.complex64)
    sent = depth * float(np.cos(angle)) + across * float(np.sin(angle))
    for element in range(0, ELEMENTS, every):
        place = (element - ELEMENTS / 2) * PITCH
        received = cupy.sqrt(depth ** 2 + (across - place) ** 2)
        sample = ((sent + received) * (RATE / SPEED)).astype(cupy.int32)
        image += iq[element][cupy.clip(sample, 0, SAMPLES - 1)]
    return image


def compound(image, shots=[]):
    """Coherent sum of the latest full set of angles."""
    shots.append(image)
    if len(shots) < len(ANGLES):
        return None
    total = cupy.zeros_like(image)
    for shot in shots[-len(ANGLES):]:
        total += shot
    return total


def main():
    rng = np.random.default_rng(0)
    raw = rng.standard_normal((ELEMENTS, SAMPLES), dtype=np.float32)
    start = time.time()
    for frame in range(600):
        picture = None
        for angle in ANGLES:
            signal = cupy.asarray(np.roll(raw, frame, axis=1))
            picture = compound(beamform(analytic(signal), angle))
        level = 20 * cupy.log10(cupy.abs(picture) + 1e-6)
        time.sleep(0.05)
        if frame % 4 == 0:
            print(f"frame {frame} mean level {float(level.mean()):.2f} dB {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
