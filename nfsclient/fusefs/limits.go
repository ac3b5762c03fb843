package fusefs

import "time"

// Limits of this package.
const (
	// maxTransfer is the maximum size in bytes for the kernel's READ and WRITE: the
	// most that FUSE accepts without a sysctl, and the most that Linux's NFS client
	// requests.
	maxTransfer = 1 << 20

	// maxBackground is the number of read-ahead and write-back requests that the
	// kernel may have in flight: enough for several streams of readAhead.
	maxBackground = 64

	// readAhead is the number of bytes that the kernel reads ahead of a sequential
	// reader, if this process may set it. Eight READs keep a connection busy over
	// any round trip within a building.
	readAhead = 8 << 20

	// readBufferSpace is the memory in bytes for the data in READs in flight that
	// request at least minReadBuffer bytes. Further READs use go-fuse's memory.
	readBufferSpace = 16 << 20
	minReadBuffer   = 64 << 10

	// hugePage is a huge page's size in bytes on hosts whose page size is
	// smallPage.
	hugePage  = 2 << 20
	smallPage = 4 << 10

	// minWriteBuffer is the minimum size in bytes for a WRITE whose memory is put
	// into huge pages, at most maxWriteBuffers of them a minute. If a host has no
	// free huge page, the next attempt is after a minute, and then after twice as
	// long each time, up to maxWritePause minutes.
	minWriteBuffer  = 256 << 10
	maxWriteBuffers = 16
	maxWritePause   = 64

	// writeBudget is the number of bytes of written data, over all files, that may
	// wait for the server's stable storage.
	writeBudget = 256 << 20

	// maxName is the maximum name length in bytes that FUSE passes.
	maxName = 1024

	// maxRestart is the number of entries that a listing rereads to find its
	// position after the server has dropped the cookie.
	maxRestart = 1 << 20

	// maxWide is the number of a listing's latest positions to which a 32-bit
	// program can seek.
	maxWide = 1 << 18

	// maxCallers is the number of processes whose groups are cached.
	maxCallers = 1024

	// maxRights is the number of users whose rights to one object are cached.
	maxRights = 8

	// maxEarly is the maximum size in bytes for a file that is read during its
	// open. The kernel reads such a file with a single READ.
	maxEarly = 16 << 10

	// maxAbsent is the number of absent names cached per directory, such as those
	// for which a compiler searches its include path.
	maxAbsent = 4096

	// maxLent is the number of one directory's names that can be lent to the kernel
	// and recalled individually, which takes some milliseconds.
	maxLent = 1000

	// manyRecalls is the number of recalls of a directory, each within recallSpan
	// after the last, after which its names are not lent for some time.
	manyRecalls = 3

	// maxAnswers is the number of threads whose last reply is remembered, not
	// counting replies sent just now.
	maxAnswers = 1024

	// maxKnown is the number of nodes that the kernel may know. Beyond it, listings
	// give the kernel names only. maxPrune is the number of nodes that the kernel
	// is told to forget at a time.
	maxKnown = 96 << 10
	maxPrune = 4096

	// maxParked is the number of nodes that are kept after the kernel has
	// forgotten them.
	maxParked = 64 << 10

	// maxGroups is the number of a caller's groups in an RPC credential (RFC
	// 5531, Appendix A).
	maxGroups = 16

	// maxUnclaimed is the number of files with lost data that are remembered after
	// the kernel has forgotten them before an fsync reported the loss.
	maxUnclaimed = 1024

	// killPolls is the number of polls after which the process of an interrupted
	// request is checked for SIGKILL, while the server responds to others.
	// unseenPolls is the number after which a process that cannot be seen counts as
	// killed.
	killPolls, unseenPolls = 2, 20

	// maxLate is the number of requests that may continue after the kernel has
	// received a reply. Any further killed process waits for the server.
	maxLate = 256

	// syscallTries is the number of attempts to read the system call of a thread
	// that does not wait for its reply yet. syscallLine is the maximum length in
	// bytes of its description.
	syscallTries = 3
	syscallLine  = 256

	// sillyTries is the number of names tried for a removed open file. Only files
	// that a crash left behind have such names.
	sillyTries = 64
)

// Times of this package.
const (
	// callerLife is the time for which a process's groups are cached: long enough
	// for one command, too short for one that changes its groups.
	callerLife = 200 * time.Millisecond

	// groupsPause is the minimum time between two log lines about callers whose
	// groups are not known.
	groupsPause = time.Minute

	// killPoll is the interval at which interrupted processes are checked.
	killPoll = 500 * time.Millisecond

	// restPoll is the interval at which unused delegations and memory are released.
	// After that time without use, the next use takes an RDMA atomic operation, or
	// must fault memory in again.
	restPoll = time.Minute

	// unknownPoll is the interval at which expireLent checks whether the kernel
	// knows a node again, or has permanently forgotten it.
	unknownPoll = time.Millisecond

	// prunePoll is the interval at which prune checks how much the kernel has
	// forgotten. prunePause is the time until the next prune.
	prunePoll  = 5 * time.Millisecond
	prunePause = 100 * time.Millisecond

	// overtakenWait is how long the reply to a WRITE waits for the kernel to drop pages.
	overtakenWait = 100 * time.Millisecond

	// maxRereads bounds how often a READ is repeated because of WRITEs in the meantime.
	maxRereads = 3

	// noteWait is the time that the kernel may take for the notifications about
	// names in one directory.
	noteWait = 50 * time.Millisecond

	// settleTime is the time after a reply when a thread is assumed to have taken
	// it, and longSettle the same for a thread that is running or runnable.
	// settlePoll is the polling interval.
	settleTime = 5 * time.Millisecond
	longSettle = 30 * time.Millisecond
	settlePoll = time.Millisecond

	// recallSpan is the maximum time between recalls of a directory that are
	// counted together. firstNoLend and maxNoLend bound the time for which names in a
	// directory with many recalls are not lent: it doubles with each recall.
	recallSpan  = 100 * time.Second
	firstNoLend = 10 * time.Second
	maxNoLend   = 5 * time.Minute

	// closeWait is the time that the removal of a directory waits for files in it
	// that programs have closed and removed. The kernel sends their RELEASE many
	// times faster.
	closeWait = 200 * time.Millisecond

	// releaseSettle is the time after a FLUSH for which the same file's RELEASE is
	// expected, on a busy host. releaseWait is the maximum time that a lock request
	// waits for the RELEASE of many files, each of which takes a call.
	releaseSettle = 100 * time.Millisecond
	releaseWait   = time.Second

	// staleRetry is the time after ESTALE for which the next open by the same
	// thread counts as the kernel's retry.
	staleRetry = time.Second

	// unmountWait is the time that the end of a mount waits for the server to
	// accept remaining data and remove hidden files.
	unmountWait = 30 * time.Second

	// logPause is the minimum time between two log lines about failed calls.
	logPause = time.Second
)
