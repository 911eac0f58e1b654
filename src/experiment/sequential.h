/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two kinds of runs, "as it is" and "changed", each of which fails or not, are compared pair by pair.
 * Three claims are tested, each by an e-value: a number that is on average at most 1 while the claim is
 * false, however often it is looked at and whenever the runs are ended. A claim that is false reaches
 * 1 / error with a probability of at most `error` (Ville's inequality). Pure.
 *
 * Why e-values: a campaign is looked at after each pair and is ended by Ctrl-C, by a budget or by a
 * decision. Fisher's and Boschloo's tests hold for one look at a number of runs that was fixed before;
 * alpha spending needs a schedule of looks, and both need a rate of failure that stays the same for
 * hours. Here the rate may drift (a neighbour, heat): only the two runs of one pair are compared.
 *
 * One pair multiplies the e-value by  qB(b) qC(c) / (rB(b) rC(c)), where b and c say whether the run as
 * it is and the changed run failed. (qB, qC) is a guess of the two rates of failure for which the claim
 * is true, and (rB, rC) the nearest pair (Kullback-Leibler) for which it is not, which makes the average
 * at most 1 for every pair of rates for which the claim is false (sequential.c has the proof). The
 * e-value is the mean over a fixed grid of such guesses, so nothing is tuned to the data.
 */
#ifndef EXPERIMENT_SEQUENTIAL_H
#define EXPERIMENT_SEQUENTIAL_H

/* A change that takes away less than this share of the failures is called no help. */
#define SEQUENTIAL_WORTH 0.5

enum claim {
    CLAIM_HELPS,   /* changed runs fail less often */
    CLAIM_NO_HELP, /* they fail more than SEQUENTIAL_WORTH times as often */
};

/* Counts over pairs: one run of the unchanged command, one run with the change. */
struct pairs_of_runs {
    unsigned count;
    unsigned base_failed;
    unsigned changed_failed;
};

/* Natural logarithm of the e-value; -HUGE_VAL where no guess can be true. */
double sequential_evidence(const struct pairs_of_runs *pairs, enum claim claim);

/* The same for "more often than not", of `yes` out of `count`. */
double sequential_majority(unsigned yes, unsigned count);

/* The log e-value at which a claim is made, for `claims` tests that together err with probability
 * `error` at most (Bonferroni, which asks nothing of how the tests depend on each other). */
double sequential_threshold(double error, unsigned claims);

/* Largest rate of failure that `failed` of `count` runs leave possible, with an error of at most
 * `error` for one look (Clopper-Pearson). Described to people; decides nothing. */
double rate_at_most(unsigned failed, unsigned count, double error);

#endif
