package fusefs

import "time"

// Limits of our own.
const (
	// maxTransfer is the octets of one READ and WRITE of the kernel: what
	// FUSE takes at most without a sysctl, and the most that Linux's NFS
	// client asks for.
	maxTransfer = 1 << 20

	// maxBackground is how many requests of read-ahead and write-back the
	// kernel has under way: enough for several streams of readAhead.
	maxBackground = 64

	// readAhead is the octets that the kernel reads ahead of a program that
	// reads in order, where we may say so: eight READs keep a connection
	// busy over any round trip in a building.
	readAhead = 8 << 20

	// landingRoom is the octets for the data of READs that are being answered,
	// of those that ask for minLanding octets at least; where more are under way,
	// others have go-fuse's memory.
	landingRoom = 16 << 20
	minLanding  = 64 << 10

	// hugePage is the octets of a huge page, where a page has 4 KiB.
	hugePage = 2 << 20

	// writeBudget is the octets of written data, over all files, that wait
	// to be on the server's stable storage.
	writeBudget = 256 << 20

	// maxName is the longest name that FUSE lets through.
	maxName = 1024

	// maxRestart is how many entries a listing goes over to find where it
	// was when the server has forgotten the place.
	maxRestart = 1 << 20

	// maxCallers is the number of processes whose groups are remembered.
	maxCallers = 1024

	// maxRights is the number of users of whom it is remembered what they
	// may do with one object.
	maxRights = 8

	// maxEarly is the octets of a file that is read while it is opened, for the
	// kernel has a READ for all of it.
	maxEarly = 16 << 10

	// maxAbsent is how many names are remembered that one directory does not
	// have: those that a compiler looks for in vain.
	maxAbsent = 4096

	// maxLent is how many names of one directory are lent to the kernel and can be
	// taken back one by one: it takes some milliseconds.
	maxLent = 1000

	// manyRecalls is after how many recalls of a directory, each within recallSpan
	// of the last, its names are not lent any more for some time.
	manyRecalls = 3

	// maxAnswers is the number of threads of which it is remembered what they were
	// told last, but for those that were told just now.
	maxAnswers = 1024

	// maxKnown is the number of nodes that the kernel may know; of listings that go
	// beyond, it gets the names alone. maxPrune is how many it is told to forget at
	// a time.
	maxKnown = 96 << 10
	maxPrune = 4096

	// maxParked is the number of nodes that are kept when the kernel has forgotten
	// them.
	maxParked = 64 << 10

	// maxGroups is what RPC carries of a caller's groups (RFC 5531,
	// Appendix A).
	maxGroups = 16

	// maxUnclaimed is how many files are remembered that lost data, and that the
	// kernel has forgotten before a program was told by fsync.
	maxUnclaimed = 1024

	// killPolls is how often it is looked at an interrupted request before it is asked
	// whether its process was killed, where the server answers others, and unseenPolls
	// before one whose process we do not see counts as killed.
	killPolls, unseenPolls = 2, 20

	// maxLate is how many requests go on that the kernel has an answer to: who kills
	// more processes has them wait for the server.
	maxLate = 256

	// sillyTries is how many names for a removed open file are tried: only
	// files that a crash left have such names.
	sillyTries = 64
)

// Times of our own.
const (
	// callerLife is how long a process's groups are believed to be the
	// same: as long as one command runs, not one that changes its groups.
	callerLife = 200 * time.Millisecond

	// killPoll is how often interrupted processes are looked at.
	killPoll = 500 * time.Millisecond

	// restPoll is how often it is looked at what is held and not used: what was
	// not used for so long takes an atomic operation at its next use, or memory
	// that has to be filled in again.
	restPoll = time.Minute

	// unknownPoll is how often it is looked at whether the kernel knows again, or has
	// forgotten for good, what was held.
	unknownPoll = time.Millisecond

	// prunePoll is how often it is looked at how much the kernel has forgotten, and
	// prunePause is for how long nothing more is tried.
	prunePoll  = 5 * time.Millisecond
	prunePause = 100 * time.Millisecond

	// noteWait is how long the kernel may take for the notes about names in one
	// directory.
	noteWait = 50 * time.Millisecond

	// settleTime is how long after a thread was told of a name it is taken to have
	// noted that, longSettle where it has not had a processor all the time, or has
	// one. settlePoll is how often it is looked at.
	settleTime = 5 * time.Millisecond
	longSettle = 30 * time.Millisecond
	settlePoll = time.Millisecond

	// recallSpan is how close recalls of a directory are that count, and firstShy
	// and maxShy bound for how long names of a directory that is recalled often are
	// not lent: it doubles with each recall.
	recallSpan = 100 * time.Second
	firstShy   = 10 * time.Second
	maxShy     = 5 * time.Minute

	// closeWait is how long the removal of a directory waits for files in it
	// that programs have closed and removed: many times what the kernel
	// takes to say so.
	closeWait = 200 * time.Millisecond

	// staleRetry is how long after ESTALE the same thread's next open is
	// taken to be the kernel's second try.
	staleRetry = time.Second

	// farewell is how long the end of a mount waits for the server to take
	// what is left: data, and files to be removed.
	farewell = 30 * time.Second

	// logPause is between two lines in the log about calls that failed.
	logPause = time.Second
)
