package iwarp

import "time"

// Limits of this implementation. The limits of the standards are in the
// packages mpa, ddp and rdmap.
const (
	// defaultRecvSize is the maximum size of a message, in bytes, unless the
	// upper layer sets one: the size that RPC-over-RDMA peers use.
	defaultRecvSize = 4096

	// maxReads bounds IRD and ORD, in RDMA Reads. Linux's siw refuses more.
	maxReads = 128

	// stagingSize is the size, in bytes, of the memory for data read from the
	// socket that has no place of its own yet: headers, small messages, and
	// with CRCs on a whole FPDU (at most 65,535 + 9 bytes) with some of the
	// next. The memory is lent only while there is something to read.
	stagingSize    = 64 << 10
	stagingSizeCRC = 128 << 10

	// spill is how many bytes behind a large payload are read together with the
	// payload: trailer, the next header, and a short reply. More bytes would be
	// copied once without need. Behind a payload of at most shortPayload bytes,
	// a system call for each would cost more than a copy, so the reader reads
	// all available bytes.
	spill        = 512
	shortPayload = 16 << 10

	// bulkRun is how many FPDUs after a large payload another one is expected:
	// the rest of its message, the reply behind it, and some small messages.
	bulkRun = 8

	// maxApart is how many separate pieces of a region a peer may have written
	// so that all of them count. It suffices for a peer that first writes every
	// other 4 KiB of 8 MiB.
	maxApart = 1024

	// maxAhead is how many FPDUs one read may take: the FPDUs of 1 MiB.
	maxAhead = 17

	// maxVectors and maxBatch bound one writev, in elements (Linux takes 1024)
	// and bytes: 1 MiB of data in FPDUs leaves together with the message that
	// announces the data, which wakes the peer once less.
	maxVectors = 1024
	maxBatch   = 1<<20 + 32<<10

	// maxHeld bounds the data held back while a reader hands over messages, in
	// bytes: beyond this size, a separate system call pays off.
	maxHeld = 128 << 10

	// maxHeaders is the space for the headers and trailers of one batch.
	maxHeaders = 32 << 10

	// maxInside is how many bytes of a Send's payload are copied to the headers: the
	// kernel takes one piece of memory at less cost than three.
	maxInside = 512
)

// Limits of the waits of a busy connection outside the poller.
const (
	// lookTime is how long a reader polls the socket: the time that waking a
	// halted processor of a virtual machine takes. After polling in vain the
	// reader polls less often, but at least once in maxSleepier waits.
	lookTime    = 50 * time.Microsecond
	maxSleepier = 64

	// yieldTime is how often a polling reader yields to other goroutines.
	yieldTime = 10 * time.Microsecond

	// shortCall is how many bytes a system call may copy without the runtime's
	// knowledge: the call takes some microseconds.
	shortCall = 128 << 10

	// maxEvents is how many events a worker takes from the poller at once.
	maxEvents = 128

	// crowd is how many links wait for a worker when another worker is called:
	// waking it costs as much as serving some messages.
	crowd = 4

	// longRead is how many bytes of one read make a connection's reader leave
	// the workers: so many that other connections should not wait for it.
	longRead = 8 << 10

	// guardPeriod is how often the poller checks that workers come back: if all
	// are kept, another is called after one to two periods. If a worker was
	// waiting for events at maxRest checks in a row, the checks end until the
	// next event.
	guardPeriod = time.Millisecond
	maxRest     = 8

	// threadTime bounds how long a thread waits in the kernel, and thus how
	// late the thread notices that the connection has ended.
	threadTime = 10 * time.Millisecond
)

// Time limits.
const (
	// defaultStartup bounds the whole MPA start-up. Linux's siw gives a peer 5
	// s as responder and 10 s as initiator.
	defaultStartup = 5 * time.Second

	// stallTimeout ends a connection if its peer stops in the middle of an FPDU
	// or a message, or accepts none of the data sent. Long data may take
	// longer, up to a second for each slowestPeer bytes.
	stallTimeout = 30 * time.Second
	slowestPeer  = 4 << 10

	// lentTimeout bounds how long posted data may be in pages of files
	// (rdma.WR.Reread) while hardly anything moves: less than a second for each
	// slowestPeer bytes. Until the pages are sent, the peer receives the changes
	// that others make to them, even if the peer may no longer read these.
	lentTimeout = 10 * time.Second

	// lingerTimeout is how long the end of a connection waits for the peer to
	// take the last bytes, such as a Terminate, and to close its half.
	lingerTimeout = 2 * time.Second

	// reasonTimeout is how long the reader waits for the peer's reason after a
	// failed write.
	reasonTimeout = 200 * time.Millisecond

	// acceptPause is how long a listener rests after a temporary failure.
	acceptPause = 100 * time.Millisecond

	// revokeTimeout is how long Deregister waits for a segment that is being
	// read from or written to the region, before it ends the connection.
	revokeTimeout = 5 * time.Second
)

// maxStarting bounds the connections of one listener that are in their MPA
// start-up; more wait in the kernel's queue. If no start-up ends for
// crowdedTime, the party with the most start-ups loses half of them.
const (
	maxStarting = 512
	crowdedTime = 100 * time.Millisecond
)
