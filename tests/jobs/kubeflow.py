"""What Kubeflow Trainer 2.2 takes (trainer.kubeflow.org/v1alpha1), as far as our job uses it.

The fields, types and requirements are those of its CustomResourceDefinitions of TrainJob and
TrainingRuntime, and of the JobSet, Job and Pod in them. A field that is not here is refused: most
that exist are not here.
"""

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 253}
COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
FLAG: Schema = {"type": "boolean"}
QUANTITY: Schema = {"anyOf": [COUNT, {"type": "string", "pattern": r"^[0-9.]+(m|[KMGT]i?)?$"}]}
TEXTS: Schema = {"type": "object", "additionalProperties": TEXT}
QUANTITIES: Schema = {"type": "object", "additionalProperties": QUANTITY}


def of(required: str = "", **properties: Schema) -> Schema:
    """An object with these fields and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


def many(items: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": items}


def kind(name: str, spec: Schema) -> Schema:
    """An object of the cluster."""
    return of(
        "apiVersion kind metadata spec",
        apiVersion={"const": "trainer.kubeflow.org/v1alpha1"},
        kind={"const": name},
        metadata=of("name", name=NAME, labels=TEXTS, annotations=TEXTS),
        spec=spec,
    )


ENV = many(of("name", name=NAME, value=TEXT))
MOUNTS = many(of("name mountPath", name=NAME, mountPath=TEXT, readOnly=FLAG))
CONTAINER = of(
    "name",
    name=NAME,
    image=TEXT,
    command=many(TEXT),
    args=many(TEXT),
    env=ENV,
    volumeMounts=MOUNTS,
)
CLAIM = of("claimName", claimName=NAME, readOnly=FLAG)
POD = of(
    "containers",
    restartPolicy={"enum": ["Never", "OnFailure"]},
    terminationGracePeriodSeconds=COUNT,
    securityContext=of("", runAsNonRoot=FLAG, runAsUser=COUNT, runAsGroup=COUNT, fsGroup=COUNT),
    containers=many(CONTAINER),
    volumes=many(of("name", name=NAME, persistentVolumeClaim=CLAIM)),
)
JOB = of("template", backoffLimit=COUNT, template=of("spec", spec=POD))
REPLICATED = of(
    "name template",
    name=NAME,
    replicas=COUNT,
    template=of("spec", metadata=of("", labels=TEXTS), spec=JOB),
)
JOB_SET = of(
    "replicatedJobs", failurePolicy=of("", maxRestarts=COUNT), replicatedJobs=many(REPLICATED)
)
POLICY = of("", numNodes=COUNT, torch=of())
RESOURCES = of("", requests=QUANTITIES, limits=QUANTITIES)
TRAINER = of(
    "",
    image=TEXT,
    command=many(TEXT),
    args=many(TEXT),
    env=ENV,
    numNodes=COUNT,
    numProcPerNode=COUNT,
    resourcesPerNode=RESOURCES,
)
SCHEMAS = {
    "TrainingRuntime": kind(
        "TrainingRuntime", of("template", mlPolicy=POLICY, template=of("", spec=JOB_SET))
    ),
    "TrainJob": kind(
        "TrainJob",
        of(
            "runtimeRef",
            runtimeRef=of("name", apiGroup=NAME, kind=NAME, name=NAME),
            suspend=FLAG,
            trainer=TRAINER,
        ),
    ),
}
RESERVED = {
    f"PET_{name}"
    for name in ("NNODES", "NPROC_PER_NODE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
}
"""Variables that Trainer sets, and a job may not."""
ANCESTOR = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
"""Label of the job whose container `node` gets what a TrainJob says of its trainer."""
