"""Beyond one machine: the same estimators on the workers of a Dask cluster."""

from labelwright.scale.cluster import connected as connected
from labelwright.scale.training import Partitions as Partitions
