"""The reachability engine: what of a large working set still matters, and why."""

from jaato.moments import TimeError, moment
from jaato.segments.changes import (
    Change,
    Configured,
    Focus,
    Focused,
    Linked,
    Pinned,
    Placed,
    Removed,
    Survived,
    TaskSet,
    Touched,
    change_from_dict,
    change_to_dict,
)
from jaato.segments.codec import segment_from_dict, segment_to_dict
from jaato.segments.collect import (
    Analysis,
    CollectionPlan,
    analyze,
    carry_out,
    explain,
    plan_collection,
    plan_due,
    plan_step,
)
from jaato.segments.config import SegmentConfig, SegmentConfigError
from jaato.segments.path import Hop
from jaato.segments.roots import NO_HINTS, Hints, RootKind, hints_from
from jaato.segments.score import Parts, score_of
from jaato.segments.segment import (
    SEGMENT_TYPES,
    ContextSegment,
    Generation,
    Link,
    LinkKind,
    SegmentError,
    SegmentType,
)
from jaato.segments.totals import Totals
from jaato.segments.verdict import Action, Standing, Verdict
from jaato.segments.working import DuplicateSegmentError, UnknownSegmentError, WorkingSet

__all__ = [
    "NO_HINTS",
    "SEGMENT_TYPES",
    "Action",
    "Analysis",
    "Change",
    "CollectionPlan",
    "Configured",
    "ContextSegment",
    "DuplicateSegmentError",
    "Focus",
    "Focused",
    "Generation",
    "Hints",
    "Hop",
    "Link",
    "LinkKind",
    "Linked",
    "Parts",
    "Pinned",
    "Placed",
    "Removed",
    "RootKind",
    "SegmentConfig",
    "SegmentConfigError",
    "SegmentError",
    "SegmentType",
    "Standing",
    "Survived",
    "TaskSet",
    "TimeError",
    "Totals",
    "Touched",
    "UnknownSegmentError",
    "Verdict",
    "WorkingSet",
    "analyze",
    "carry_out",
    "change_from_dict",
    "change_to_dict",
    "explain",
    "hints_from",
    "moment",
    "plan_collection",
    "plan_due",
    "plan_step",
    "score_of",
    "segment_from_dict",
    "segment_to_dict",
]
