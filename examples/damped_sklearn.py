"""Digits with batches that grow, through a pipeline and a grid search.

python examples/damped_sklearn.py; needs the extra gossip-sgd[sklearn].
"""

import argparse

from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch.optim import SGD

from gossip.damping import GeoDamp, GeoDampLR
from gossip.estimators import DampedClassifier

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=12)
parser.add_argument("--picture", help="file for a picture of the schedule, such as schedule.png")
options = parser.parse_args()

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)

# Dropped by 2 every third of the epochs: the noise of the gradient, by the batch or by the rate.
model = DampedClassifier(
    optimizer=SGD,
    optimizer__momentum=0.9,
    batch_size=GeoDamp,
    batch_size__delay=options.epochs / 3,
    batch_size__factor=2,
    max_epochs=options.epochs,
    random_state=0,
)
search = GridSearchCV(
    make_pipeline(StandardScaler(), model),
    {
        "dampedclassifier__batch_size": [GeoDamp, GeoDampLR],
        "dampedclassifier__lr": [0.02, 0.05],
    },
    cv=3,
    n_jobs=2,
).fit(X, y)

for params, accuracy in zip(
    search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
):
    damper, lr = params["dampedclassifier__batch_size"], params["dampedclassifier__lr"]
    print(f"{damper.__name__}, lr {lr}: {accuracy:.2%} of what was held out")
best = search.best_estimator_[-1]
print(f"best: {best.meta_['n_updates']} updates, the last of {best.batch_size_} samples")
print(f"test accuracy: {search.score(X_test, y_test):.2%}")
if options.picture:
    best.plot_schedule().savefig(options.picture)
