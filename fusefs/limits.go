package fusefs

import "time"

// Limits of this package.
const (
	// maxTransfer is the maximum size in bytes of the kernel's READ and WRITE:
	// the most that FUSE takes without a sysctl, and the most that Linux's NFS
	// client asks for.
	maxTransfer = 1 << 20

	// maxBackground is how many read-ahead and write-back requests the kernel
	// may have in flight: enough for several streams of readAhead.
	maxBackground = 64

	// readAhead is how many bytes the kernel reads ahead of a sequential
	// reader, if this process may set it. Eight READs keep a connection busy
	// over any round trip within a building.
	readAhead = 8 << 20

	// readBufferRoom is the memory in bytes for the data of READs in flight that
	// ask for at least minReadBuffer bytes. Further READs use go-fuse's memory.
	readBufferRoom = 16 << 20
	minReadBuffer  = 64 << 10

	// hugePage is the size in bytes of a huge page on hosts with pages of
	// smallPage.
	hugePage  = 2 << 20
	smallPage = 4 << 10

	// minWriteBuffer is the least size in bytes of a WRITE whose memory is put
	// into huge pages, at most maxWriteBuffers of them a minute. If a host has no
	// huge page, it is asked again after a minute, and then after twice as long
	// each time, up to maxWritePause minutes.
	minWriteBuffer  = 256 << 10
	maxWriteBuffers = 16
	maxWritePause   = 64

	// writeBudget is how many bytes of written data, over all files, may wait
	// for the server's stable storage.
	writeBudget = 256 << 20

	// maxName is the longest name that FUSE passes.
	maxName = 1024

	// maxRestart is how many entries a listing rereads to find its place after
	// the server has forgotten the cookie.
	maxRestart = 1 << 20

	// maxCallers is how many processes have their groups cached.
	maxCallers = 1024

	// maxRights is how many users have their rights to one object cached.
	maxRights = 8

	// maxEarly is the maximum size in bytes of a file that is read during its
	// open. The kernel reads such a file with a single READ.
	maxEarly = 16 << 10

	// maxAbsent is how many absent names are cached per directory, such as
	// those that a compiler searches for in vain.
	maxAbsent = 4096

	// maxLent is how many names of one directory can be lent to the kernel and
	// taken back individually, which takes some milliseconds.
	maxLent = 1000

	// manyRecalls is the number of recalls of a directory, each within
	// recallSpan of the last, after which its names are not lent for some time.
	manyRecalls = 3

	// maxAnswers is the number of threads whose last reply is remembered, not
	// counting replies sent just now.
	maxAnswers = 1024

	// maxKnown is the number of nodes that the kernel may know. Beyond it,
	// listings give the kernel names only. maxPrune is how many nodes the
	// kernel is told to forget at a time.
	maxKnown = 96 << 10
	maxPrune = 4096

	// maxParked is the number of nodes that are kept after the kernel has
	// forgotten them.
	maxParked = 64 << 10

	// maxGroups is the number of a caller's groups in an RPC credential (RFC
	// 5531, Appendix A).
	maxGroups = 16

	// maxUnclaimed is how many files with lost data are remembered after the
	// kernel has forgotten them before an fsync reported the loss.
	maxUnclaimed = 1024

	// killPolls is the number of polls after which the process of an
	// interrupted request is checked for SIGKILL, while the server answers
	// others. unseenPolls is the number after which a process that cannot be
	// seen counts as killed.
	killPolls, unseenPolls = 2, 20

	// maxLate is how many requests may continue after the kernel has got an
	// answer. Any further killed process waits for the server.
	maxLate = 256

	// sillyTries is how many names are tried for a removed open file. Only
	// files that a crash left behind have such names.
	sillyTries = 64
)

// Times of this package.
const (
	// callerLife is how long a process's groups are cached: long enough for one
	// command, too short for one that changes its groups.
	callerLife = 200 * time.Millisecond

	// killPoll is how often interrupted processes are checked.
	killPoll = 500 * time.Millisecond

	// restPoll is how often unused delegations and memory are looked for. After
	// so long without use, the next use takes an atomic operation, or memory
	// that must be faulted in again.
	restPoll = time.Minute

	// unknownPoll is how often expireLent checks whether the kernel knows a
	// node again, or has forgotten it for good.
	unknownPoll = time.Millisecond

	// prunePoll is how often prune checks how much the kernel has forgotten.
	// prunePause is the time until the next prune.
	prunePoll  = 5 * time.Millisecond
	prunePause = 100 * time.Millisecond

	// noteWait is how long the kernel may take for the notifications about
	// names in one directory.
	noteWait = 50 * time.Millisecond

	// settleTime is how long after a reply a thread is assumed to have taken
	// it, and longSettle the same for a thread that is running or runnable.
	// settlePoll is how often this is checked.
	settleTime = 5 * time.Millisecond
	longSettle = 30 * time.Millisecond
	settlePoll = time.Millisecond

	// recallSpan is the longest time between recalls of a directory that are
	// counted together. firstShy and maxShy bound how long names of a directory
	// with many recalls are not lent: the time doubles with each recall.
	recallSpan = 100 * time.Second
	firstShy   = 10 * time.Second
	maxShy     = 5 * time.Minute

	// closeWait is how long the removal of a directory waits for files in it
	// that programs have closed and removed. The kernel sends their release
	// many times faster.
	closeWait = 200 * time.Millisecond

	// releaseSettle is how long after a FLUSH the RELEASE of the same file is
	// expected, on a busy host. releaseWait is how long a request for a lock waits
	// at most for the RELEASE of many files, of which each takes a call.
	releaseSettle = 100 * time.Millisecond
	releaseWait   = time.Second

	// staleRetry is how long after ESTALE the next open by the same thread is
	// taken for the kernel's second try.
	staleRetry = time.Second

	// farewell is how long the end of a mount waits for the server to take
	// remaining data and remove hidden files.
	farewell = 30 * time.Second

	// logPause is the minimum time between two log lines about failed calls.
	logPause = time.Second
)
