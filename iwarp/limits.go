package iwarp

import "time"

// Limits of this implementation. The standards' own are in the packages mpa,
// ddp and rdmap.
const (
	// defaultRecvSize is what a message may measure, in octets, where the
	// upper layer does not say: what RPC-over-RDMA peers use.
	defaultRecvSize = 4096

	// maxReads bounds IRD and ORD, in RDMA Reads. Linux's siw refuses more.
	maxReads = 128

	// stagingSize holds what was read from the socket and has no place of
	// its own yet, in octets: headers, small messages, and with CRCs on a
	// whole FPDU (65,535 + 9 octets at most) with some of the next. It is
	// lent only while there is something to read.
	stagingSize    = 64 << 10
	stagingSizeCRC = 128 << 10

	// spill is how many octets behind a large payload are taken along when
	// the payload is read into its place: trailer, the next header, and a
	// short reply; more would be copied once without need. Behind one of
	// shortPayload octets at most, a system call for each would cost more
	// than a copy, and all is taken that there is.
	spill        = 512
	shortPayload = 16 << 10

	// maxApart is how many pieces of a region a peer may have written with gaps
	// between them, so that all count: what writes 8 MiB as every other 4 KiB first.
	maxApart = 1024

	// maxAhead is how many FPDUs one read may take: those of 1 MiB.
	maxAhead = 17

	// maxVectors and maxBatch bound one writev, in elements (Linux takes
	// 1024) and octets: 1 MiB of data in FPDUs goes with the message that
	// tells of it, and so wakes the peer once less.
	maxVectors = 1024
	maxBatch   = 1<<20 + 32<<10

	// maxHeld bounds what is held back while a reader hands messages over,
	// in octets: beyond it, a system call of its own is worth it.
	maxHeld = 128 << 10

	// minRecord is the least limit of a recorder's ring, in octets: the
	// longest FPDU, with Markers, fits. minRing is what the ring begins with.
	minRecord = 128 << 10
	minRing   = 4 << 10

	// maxHeaders is the room for the headers and trailers of one batch.
	maxHeaders = 32 << 10
)

// How long a connection that is busy waits in other ways than by the poller.
const (
	// lookTime is how long a reader looks for octets again and again: what it
	// takes to wake a processor that is halted in a virtual machine. Where
	// that was in vain, it does so less often, once in maxSleepier waits at
	// the least.
	lookTime    = 50 * time.Microsecond
	maxSleepier = 64

	// yieldTime is how often, meanwhile, other goroutines come first.
	yieldTime = 10 * time.Microsecond

	// shortCall is how many octets a system call may copy without the runtime's
	// knowledge: what takes some microseconds.
	shortCall = 128 << 10

	// threadTime bounds how long a thread waits in the kernel, and so how
	// late it sees that the connection has ended.
	threadTime = 10 * time.Millisecond
)

// Time limits.
const (
	// defaultStartup bounds the whole of the MPA start-up. Linux's siw
	// gives a peer 5 s as responder and 10 s as initiator.
	defaultStartup = 5 * time.Second

	// stallTimeout ends a connection whose peer stops in the middle of an
	// FPDU or a message, or takes nothing of what is sent. What is long may take
	// longer, up to a second for each slowestPeer octets.
	stallTimeout = 30 * time.Second
	slowestPeer  = 4 << 10

	// lentTimeout is stallTimeout where what is sent may lie in pages of files
	// (rdma.WR.Reread): until they are sent, the peer gets what others write to
	// them meanwhile, whether it still may read that or not.
	lentTimeout = 10 * time.Second

	// lingerTimeout is how long the end of a connection waits for the
	// peer to take the last octets, a Terminate among them, and to close
	// its half.
	lingerTimeout = 2 * time.Second

	// reasonTimeout is how long the reader looks for the peer's reason
	// after a write has failed.
	reasonTimeout = 200 * time.Millisecond

	// acceptPause is how long a listener rests after a failure that
	// passes.
	acceptPause = 100 * time.Millisecond

	// revokeTimeout is how long Deregister waits for a segment that is on
	// its way into the region or out of it, before it ends the connection.
	revokeTimeout = 5 * time.Second
)

// maxStarting bounds the connections of one listener that are in their MPA
// start-up; more wait in the kernel's queue. Where none of them has come to an end
// for crowdedTime, those who have too many lose some.
const (
	maxStarting = 512
	crowdedTime = 100 * time.Millisecond
)
