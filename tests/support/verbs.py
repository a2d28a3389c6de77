"""What a function's docstring may begin with (tests/test_docstrings.py), in the imperative."""

WORDS = """
abort accept acknowledge acquire adapt add adjust adopt advance advise agree align allocate allow announce
answer append apply approve arrange ask assemble assert assign assume attach attend average await balance
batch become begin bind block book bound branch break bring broadcast build bundle cache calculate call
cancel capture carry cast catch centre change charge check choose claim clamp classify clean clear click
clip close collapse collect colour combine come commit compare compile complete compose compress compute
concatenate confirm connect consider construct consume contain continue convert copy correct count cover
create crop cut damage deal decide declare decode decompress decorate decrease deduplicate defer define
delete deliver depend dequantise derive describe detach detect determine discard display distribute divide
do download draft drain draw drive drop dump embed emit empty enable encode end enforce enlarge enqueue
ensure enter erase escape estimate evaluate evict examine exclude execute exit expand expect explain export
express extend extract fail feed fetch fill filter find finish fire fit fix flag flatten flush fold follow
force forget fork form format forward free freeze fuse gather generate get give go group grow guarantee
guard guess halt hand handle hang hash have help hide highlight hold identify ignore implement import
include increase increment index infer inform initialise insert inspect install intercept interpolate
interpret interrupt introduce invert invoke isolate iterate join judge jump keep kill know label launch lay
lead learn leave let lie limit link list listen live load locate lock log look lower make manage map mark
mask match mean measure meet merge migrate minimise mix model modify monitor move multiply name narrow need
normalise note notice notify number observe obtain occupy occur offer omit open order overwrite own pack pad
paint pair parse partition pass paste patch pause pay perform persist pick pin place plan play point poll
pool pop populate prefer prefill prepare prepend present preserve press prevent print probe proceed process
produce promise propose protect prove provide prune publish pull push put quantise query queue quit quote
raise rank read rebuild recall receive recognise recompute record recover redirect reduce refer refill
refine refresh refuse register reject release reload relocate rely remain remember remove rename render
renew reopen repair repeat replace replay reply report represent reproduce request require rescue reserve
reset reshape resize resolve respond restart restore restrict resume retrieve retry return reuse reveal
reverse review rewind rewrite roll rotate round route run sample satisfy save say scale scan schedule score
scroll search see select send separate serialise serve set settle shape share shift shorten show shrink shut
sign signal simulate skip sleep slice snapshot solve sort span spawn spend split spread stack stamp stand
start state stay step stop store stream stretch strip submit subtract suggest sum summarise supply support
suppress switch synchronise tag take teach tell terminate test throw tidy tie time toggle tokenise touch
trace track train transform translate transpose traverse treat trigger trim truncate try tune turn undo
unescape unload unlock unpack update upgrade upload use validate verify view visit wait wake walk want warm
warn watch weigh widen work wrap write yield zero
"""
VERBS = frozenset(WORDS.split())
