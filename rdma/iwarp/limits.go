package iwarp

import "time"

// Limits of this implementation. The standards' limits are in the packages mpa,
// ddp and rdmap.
const (
	// defaultRecvSize is the maximum message size, in bytes, unless the upper
	// layer sets one: the size that RPC-over-RDMA peers use.
	defaultRecvSize = 4096

	// maxReads bounds IRD and ORD, in RDMA Reads. Linux's siw rejects more.
	maxReads = 128

	// stagingSize is the size, in bytes, of the buffer for data read from the
	// socket before its destination is known: headers, small messages, and with
	// CRCs on a whole FPDU (at most 65,535 + 9 bytes) with part of the next.
	// The buffer is held only while there is something to read.
	stagingSize    = 64 << 10
	stagingSizeCRC = 128 << 10

	// spill is the number of bytes after a large payload that are read together
	// with the payload: trailer, the next header, and a short reply. More bytes
	// would be copied once unnecessarily. After a payload of at most
	// shortPayload bytes, separate system calls would cost more than a copy, so
	// the reader reads all available bytes.
	spill        = 512
	shortPayload = 16 << 10

	// bulkRun is the number of FPDUs after a large payload during which another
	// one is expected: the rest of its message, the reply after it, and some
	// small messages.
	bulkRun = 8

	// maxSeparate is the maximum number of separate written ranges that are
	// recorded per region. It suffices for a peer that first writes every other
	// 4 KiB of 8 MiB.
	maxSeparate = 1024

	// maxAhead is the maximum number of FPDUs per read: enough for 1 MiB.
	maxAhead = 17

	// maxReadable is the number of mapped bytes that one system call makes readable, unless an FPDU
	// has more.
	maxReadable = 128 << 10

	// maxVectors and maxBatch bound one writev, in elements (Linux takes 1024)
	// and bytes: 1 MiB of data in FPDUs is sent together with the message that
	// announces the data, which saves a wake-up at the peer.
	maxVectors = 1024
	maxBatch   = 1<<20 + 32<<10

	// maxHeld bounds the data held back while a reader delivers messages, in
	// bytes: beyond this size, a separate system call pays off.
	maxHeld = 128 << 10

	// maxHeaders is the space for one batch's headers and trailers, in bytes.
	maxHeaders = 32 << 10

	// maxInlineSend is the maximum Send payload, in bytes, that is copied next to the headers: one
	// iovec costs the kernel less than three.
	maxInlineSend = 512
)

// Limits on a busy connection's waits outside the poller.
const (
	// busyPollTime is the time that a reader polls the socket: as long as it
	// takes to wake a virtual machine's halted processor. After polling without
	// success the reader polls less often, but at least once in maxPollSkips
	// waits.
	busyPollTime = 50 * time.Microsecond
	maxPollSkips = 64

	// yieldInterval is the interval at which a polling reader yields to other
	// goroutines.
	yieldInterval = 10 * time.Microsecond

	// shortCall is the maximum number of bytes that a raw system call may copy,
	// which takes some microseconds.
	shortCall = 128 << 10

	// maxEvents is the maximum number of epoll events that a worker fetches at
	// once.
	maxEvents = 128

	// crowd is the number of waiting links from which another worker is called:
	// waking it costs as much as serving some messages.
	crowd = 4

	// longRead is the read size, in bytes, from which a connection gets its own
	// reader: other connections should not wait for it.
	longRead = 8 << 10

	// guardPeriod is the interval at which the poller checks that workers
	// return: if all are blocked, another is called after one to two periods.
	// If a worker was waiting for events at maxRest consecutive checks, the
	// checks stop until the next event.
	guardPeriod = time.Millisecond
	maxRest     = 8

	// threadTime bounds how long a thread waits in the kernel, and so how late
	// it notices that the connection has ended.
	threadTime = 10 * time.Millisecond
)

// Time limits.
const (
	// defaultStartup bounds the MPA start-up. Linux's siw allows a peer 5 s as
	// responder and 10 s as initiator.
	defaultStartup = 5 * time.Second

	// stallTimeout is the time after which a connection is closed if its peer
	// stops within an FPDU or a message, or accepts no data. Long data may take
	// longer, up to a second per slowestPeer bytes.
	stallTimeout = 30 * time.Second
	slowestPeer  = 4 << 10

	// lentTimeout bounds how long posted data may be in file pages
	// (rdma.WR.Reread) with hardly any progress: less than slowestPeer bytes
	// per second. Until the pages are sent, the peer receives the changes that
	// others make to them, even if the peer may no longer read these.
	lentTimeout = 10 * time.Second

	// lingerTimeout is the time that closing a connection waits for the peer to
	// receive the last bytes, such as a Terminate, and to close its half.
	lingerTimeout = 2 * time.Second

	// reasonTimeout is the time that the reader waits for the peer's reason
	// after a failed write.
	reasonTimeout = 200 * time.Millisecond

	// acceptPause is the pause after a temporary accept failure.
	acceptPause = 100 * time.Millisecond

	// revokeTimeout is the time that Deregister waits for a segment that is
	// being read from or written to the region, before it aborts the
	// connection.
	revokeTimeout = 5 * time.Second
)

// maxStarting bounds a listener's connections that are in their MPA start-up;
// more wait in the kernel's queue. If no start-up finishes for crowdedTime, the
// party (client address) with the most start-ups loses half of them.
const (
	maxStarting = 512
	crowdedTime = 100 * time.Millisecond
)
