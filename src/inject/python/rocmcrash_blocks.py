# SPDX-License-Identifier: Apache-2.0
"""Makes text of PyTorch's segments and blocks: executed by rocmcrash_torch.

Pure: PyTorch's lists in, text out. Asks nobody and writes nothing.
"""
SNAPSHOT_BYTES_MAX = 8 << 20
PYTHON_FRAMES_MAX = 4
SITE_FRAMES = 3  # TORCH_SITE_FRAMES
SITE_MAX = 511  # bytes: TORCH_SITE_MAX
MARK_SITES = 100
CLASSES = (1 << 20, 10 << 20, 100 << 20, 1 << 30)  # TORCH_CLASSES of collectors/lib/torch_snapshot.h


def _python_frames(frames):
    """Innermost first; those of the program before those of PyTorch."""
    own = [f for f in frames if f["filename"].endswith(".py") and "/torch/" not in f["filename"]]
    return ["%s:%s %s" % (f["filename"], f["line"], f["name"])
            for f in (own or frames)[:PYTHON_FRAMES_MAX]]


def _encode_block(block, encode):
    text = '{"size":%d,"state":"%s"' % (block["size"], block["state"])
    if "requested_size" in block:
        text += ',"requested_size":%d' % block["requested_size"]
    if block.get("frames"):
        text += ',"at":' + encode(_python_frames(block["frames"]))
    return text + "}"


def _encode_segment(segment, room, encode):
    """Its blocks, or where they are too many their sums."""
    kept = {key: segment[key] for key in (
        "device", "address", "total_size", "allocated_size", "active_size", "requested_size",
        "stream", "segment_type", "segment_pool_id", "is_expandable") if key in segment}
    head = encode(kept)[:-1]
    blocks = ",".join([_encode_block(block, encode) for block in segment["blocks"]])
    if len(blocks) < room:
        return head + ',"blocks":[' + blocks + "]}"
    idle = [block["size"] for block in segment["blocks"] if block["state"] == "inactive"]
    return head + ',"blocks_omitted":%d,"inactive_size":%d,"largest_inactive":%d}' % (
        len(segment["blocks"]), sum(idle), max(idle or [0]))


def snapshot_text(segments, kept, encode):
    """Segments and blocks, as torch.cuda.memory_snapshot() gives them, without what nobody reads. `kept`: rows of
    rocmcrash_kept."""
    out = []
    room = SNAPSHOT_BYTES_MAX
    omitted = 0
    for segment in segments:
        if room <= 0:
            omitted += 1
            continue
        text = _encode_segment(segment, room // 2, encode)
        room -= len(text) + 1
        if room > 0:
            out.append(text)
        else:
            omitted += 1
    return ('{"format":1,"kept":%s,"segments_omitted":%d,"segments":[\n' % (encode(kept), omitted) +
            ",\n".join(out) + "\n]}\n")


def _site_of(block):
    """As site_of() of collectors/lib/torch_snapshot.c has it from the same frames."""
    frames = " < ".join(_python_frames(block.get("frames") or ())[:SITE_FRAMES])
    data = frames.encode("utf-8", "backslashreplace")[:SITE_MAX]
    return data.decode("utf-8", "ignore").replace("\n", " ")


def _live_of(segments):
    """{device: ({class: [bytes, blocks]}, {call site: [bytes, blocks]})}"""
    found = {}
    for segment in segments:
        classes, sites = found.setdefault(segment["device"], ({}, {}))
        for block in segment["blocks"]:
            size = block["size"]
            if block["state"] == "inactive":
                continue
            at = sum([size > limit for limit in CLASSES])
            for table, key in ((classes, at), (sites, _site_of(block))):
                if key != "":
                    entry = table.setdefault(key, [0, 0])
                    entry[0] += size
                    entry[1] += 1
    return found


def mark_rows(now_ns, segments):
    """Rows of PID.live.csv: the memory in use, by size of block and by call site."""
    rows = []
    for device, (classes, sites) in _live_of(segments).items():
        for at, (size, blocks) in classes.items():
            rows.append("%d,%d,%d,%d,%d,\n" % (now_ns, device, at, size, blocks))
        largest = sorted(sites.items(), key=lambda item: -item[1][0])[:MARK_SITES]
        for site, (size, blocks) in largest:
            rows.append("%d,%d,,%d,%d,%s\n" % (now_ns, device, size, blocks, site))
    return "".join(rows)


def shorten(history):
    """File names without the folders that tell whose they are: the bundle's redaction cannot replace
    words inside a pickle."""
    seen = set()
    short = {}
    entries = [e for trace in history.get("device_traces", ()) for e in trace]
    for segment in history.get("segments", ()):
        entries.append(segment)
        entries.extend(segment.get("blocks", ()))
    for entry in entries:
        for frame in entry.get("frames") or ():
            if id(frame) in seen:
                continue
            seen.add(id(frame))
            name = frame["filename"]
            if name not in short:
                parts = name.split("/")
                at = [i for i, part in enumerate(parts) if part in ("site-packages", "dist-packages")]
                short[name] = "/".join(parts[at[-1] + 1:] if at else parts[-2:])
            frame["filename"] = short[name]
    return history
