"""The loss of DELTR: by hand, against other implementations, and its gradient."""

import numpy as np
import pytest
import torch
from deltr_data import made_up
from fairtk_baselines import DELTR
from fairtk_baselines.deltr import PUBLISHED
from fairtk_baselines.deltr.training import Lists, LossSides, Problem, exposure_scale, wanted_top
from hypothesis import given
from hypothesis import strategies as st

LN2 = np.log(2.0)


def problem(sizes, features, label, protected, rest, **given):
    lists = Lists(np.concatenate([[0], np.cumsum(sizes)]))
    settings = {"gamma": 1.0, "l2": 0.0, "exposure": "top-one", "labels": "softmax"} | given
    sizes = np.array(sizes, dtype=float)
    return Problem(
        np.array(features, dtype=float),
        wanted_top(lists, np.array(label, dtype=float), settings["labels"]),
        lists,
        LossSides(
            np.array(protected, dtype=float),
            np.array(rest, dtype=float),
            exposure_scale(lists, settings["exposure"]),
        ),
        settings["gamma"],
        np.log(sizes),
        np.full(len(sizes), 1 / len(sizes)),
        settings["l2"],
    )


def test_relative_exposure_is_in_multiples_of_a_uniform_ranking():
    # three documents with top-one probabilities 1/2, 1/4, 1/4, i.e. 3/2, 3/4, 3/4 times uniform;
    # protected: the last; rest: the others, mean 9/8; 9/8 - 3/4 = 3/8
    features = [[LN2], [0], [0]]
    one = problem([3], features, [1, 0, 0], [[0], [0], [1]], [1, 1, 0], exposure="relative")
    assert one.parts(np.ones(1)).exposure == pytest.approx([(3 / 8) ** 2])


def test_label_shares():
    # labels 3, 1, -1 want 3/4, 1/4, 0; uniform scores: cross entropy ln 3, divided by ln 3
    one = problem([3], [[0]] * 3, [3, 1, -1], [[0]] * 3, [0] * 3, labels="share")
    assert one.wanted == pytest.approx([0.75, 0.25, 0.0])
    assert one.parts(np.ones(1)).ranking == pytest.approx([1.0])


@st.composite
def problems(draw):
    sizes = draw(st.lists(st.integers(2, 6), min_size=1, max_size=4))
    n, width = sum(sizes), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    made = problem(
        sizes,
        rng.normal(size=(n, draw(st.integers(1, 4)))),
        rng.integers(0, 3, n),
        rng.random((n, width)) * (rng.random((n, width)) < 0.6),
        rng.random(n) * (rng.random(n) < 0.6),
        gamma=draw(st.sampled_from([0.0, 1.0, 30.0])),
        l2=draw(st.sampled_from([0.0, 0.1])),
        exposure=draw(st.sampled_from(["top-one", "relative"])),
    )
    return made, rng.normal(size=made.features.shape[1])


@given(problems())
def test_gradient_is_that_of_the_loss(drawn):
    made, weights = drawn
    gradient = made.value_and_gradient(weights)[1]
    step = 1e-6
    for i, direction in enumerate(np.eye(len(weights)) * step):
        above = made.value_and_gradient(weights + direction)[0]
        below = made.value_and_gradient(weights - direction)[0]
        assert gradient[i] == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-6)


@given(problems(), st.floats(-50, 50))
def test_a_constant_on_all_scores_of_a_query_changes_nothing(drawn, constant):
    made, weights = drawn
    shift = np.ones((len(made.features), 1))
    wider = Problem(
        np.hstack([made.features, shift]), made.wanted, made.lists, made.sides, made.gamma,
        made.divisor, made.share, made.l2,
    )  # fmt: skip
    before, after = made.parts(weights), wider.parts(np.append(weights, constant))
    assert after.ranking == pytest.approx(before.ranking, abs=1e-9)
    assert after.exposure == pytest.approx(before.exposure, abs=1e-9)


@given(problems())
def test_loss_equals_a_plain_loop_over_queries(drawn):
    made, weights = drawn
    total = made.l2 * float(weights @ weights)
    starts = made.lists.start
    for q, (a, b) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        scores = made.features[a:b] @ weights
        top = np.exp(scores) / np.exp(scores).sum()
        loss = -(made.wanted[a:b] * np.log(top)).sum() / np.log(b - a)
        rest = made.sides.rest[a:b]
        for column in made.sides.protected[a:b].T:
            if column.sum() > 0 and rest.sum() > 0:
                gap = (rest @ top / rest.sum() - column @ top / column.sum()) * made.sides.scale[q]
                loss += made.gamma * max(0.0, gap) ** 2
        total += loss / (len(starts) - 1)
    assert made.value_and_gradient(weights)[0] == pytest.approx(total, rel=1e-9)


def test_large_scores_do_not_overflow():
    one = problem([2], [[1000.0], [0]], [1, 0], [[0], [1]], [1, 0])
    value, gradient = one.value_and_gradient(np.array([100.0]))
    assert np.isfinite(value) and np.isfinite(gradient).all()


def test_gamma_0_is_plain_listnet():
    """Against ListNet written on its own, in torch, with its gradients and its optimizer."""
    run, qrels, groups = made_up()
    table = run.merge(qrels, on=["qid", "docno"])
    x = torch.tensor(np.stack(table["features"].tolist())[:, :2], dtype=torch.float64)
    x = (x - x.mean(0)) / x.std(0, unbiased=False)
    member = torch.tensor(
        [[float(d.endswith(("1", "3", "5", "7", "9")))] for d in table["docno"]],
        dtype=torch.float64,
    )
    x = torch.cat([x, member], dim=1)
    y = torch.tensor(table["label"].to_numpy(), dtype=torch.float64)
    query = torch.tensor(table["qid"].str[1:].astype(int).to_numpy())
    w = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS(
        [w], max_iter=500, tolerance_grad=1e-12, tolerance_change=0.0, line_search_fn="strong_wolfe"
    )

    def loss():
        search.zero_grad()
        each = []
        for q in query.unique():
            rows = query == q
            wanted, found = torch.softmax(y[rows], 0), torch.log_softmax(x[rows] @ w, 0)
            each.append(-(wanted * found).sum() / np.log(int(rows.sum())))
        value = torch.stack(each).mean() + 0.001 * (w**2).sum()
        value.backward()
        return value

    search.step(loss)
    wanted = w.detach().numpy()
    model = DELTR(groups, "b", gamma=0).fit(run, qrels).model
    assert model.weights[:2] == pytest.approx(wanted[:2], abs=1e-6)
    assert model.weights[2] == 0.0 or abs(model.weights[2]) < 1e-6  # a constant feature
    assert model.group_weights == pytest.approx(wanted[2:], abs=1e-6)


# Weights that fairsearch-deltr 1.0.2 finds for the data below in 60 steps with a learning rate of
# 0.01, from the start that its numpy.random.rand was made to return: default_rng(7).random(3).
# By (gamma, standardize): first and second feature, protected column.
FOUND = {
    (0, "none"): [0.28575493016890857, 0.012362872574002426, -0.03238126576312633],
    (0, "global"): [0.27626460455088503, 0.01311088454890714, -0.025335919556036937],
    (1, "none"): [0.15344864773393344, 0.06244867001120429, 0.19558097415860182],
    (1, "global"): [0.1206170895744183, -0.007545998945982141, 0.1416186684943002],
    (5, "none"): [0.13347860142311813, 0.05371767954703254, 0.2607277989949779],
    (5, "global"): [0.09883530641954931, -0.06436048149886228, 0.19682330147824031],
}


@pytest.mark.parametrize("case", FOUND)
def test_published_settings_give_the_published_codes_weights(case):
    from deltr_data import frame, groups, labels

    gamma, standardize = case
    docs = [f"d{i:02}" for i in range(12)]
    queries = {"1": docs[:4], "2": docs[4:7], "3": docs[7:]}
    first = [3.0, 2.5, 1.0, 0.5, 2.0, 1.5, 1.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    second = [0.2, 0.9, 0.4, 0.7, 0.1, 0.8, 0.3, 0.5, 0.6, 0.2, 0.9, 0.4]
    label = [2, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 0]
    qid = [q for q, d in queries.items() for _ in d]
    settings = {
        **PUBLISHED,
        "standardize": standardize,
        "max_iterations": 60,
        "learning_rate": 0.01,
        "seed": 7,
    }
    run = frame(queries, zip(first, second, strict=True))
    of = groups(dict(zip(docs, "aabbabaaabbb", strict=True)))
    fitted = DELTR(of, "b", gamma, **settings).fit(run, labels(zip(qid, docs, label, strict=True)))
    found = [*fitted.model.weights, *fitted.model.group_weights]
    assert found == pytest.approx(FOUND[case], rel=1e-9)
