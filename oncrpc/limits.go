package oncrpc

import (
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lograte"
)

// DefaultMaxConns is the default of Server.MaxConns: even an idle connection
// costs a descriptor, a read buffer and a goroutine.
const DefaultMaxConns = 4096

// Implementation limits.
const (
	// defaultMaxRecord bounds a call or reply, in bytes: 1 MiB payload, the
	// most that NFS clients request, and space for a call header (at most 840
	// bytes) and the other arguments. It fits a pooled buffer.
	defaultMaxRecord = 1<<20 + 4<<10

	// maxCalls bounds the calls on one connection that are being received, served or
	// replied to. Further calls of the client wait in the socket.
	maxCalls = 64

	// maxReverse bounds the calls in flight to a connection's client. Further ones wait.
	// It is as many as on RDMA.
	maxReverse = 16

	// A call in flight beyond its connection's first freeCalls counts as callCost
	// bytes, for its goroutine, its record and its reply's head if these are short.
	// callMemoryLimit bounds the sum for all such calls: the calls of 64 connections that
	// use all their slots. A party gets half.
	freeCalls       = 4
	callCost        = 16 << 10
	callMemoryLimit = 64 << 20

	// readBuffer is the size in bytes of a connection's read buffer. One read fetches
	// several small records. Most bytes in a large record bypass the buffer, except its
	// start and end.
	readBuffer = 16 << 10

	// smallRecord is the length in bytes up to which a record or a data item is not
	// counted as memory. Most calls are that small, and must not wait for large ones.
	smallRecord = 4 << 10

	// memoryLimit bounds a server's memory for large records, in bytes, and separately
	// its memory for large replies without mapped data: 128 calls of 1 MiB in each
	// direction, enough for two clients that use all their calls. A party gets half. A
	// connection gets half a party's share, or more if the longest record needs more,
	// because all clients behind a bridge are one host.
	memoryLimit      = 128 << 20
	partyMemoryLimit = memoryLimit / 2
	connMemoryLimit  = partyMemoryLimit / 2

	// maxKeptHead is the size in bytes up to which a client call's memory is kept for the
	// next call.
	maxKeptHead = 64 << 10

	// batchSize bounds the bytes of replies, or client calls, in one write. It keeps a
	// write short enough for writeTimeout.
	batchSize = 1 << 20

	// A reader that serves short calls holds their replies back while whole calls
	// are in its buffer: initialHeldReplies replies, then twice as many, and so on, and at
	// most maxHeldBytes bytes.
	maxHeldBytes = 64 << 10

	// maxReaderRecord is the maximum length in bytes up to which the reader itself serves
	// a call or writes a reply when further calls have arrived: storing or sending more
	// takes longer than waking another goroutine.
	maxReaderRecord = 32 << 10

	// recordTimeout bounds the time from a record's first byte to its last, and
	// writeTimeout a write of replies: 1 MiB in that time is 0.25 Mbit/s. A connection
	// that is idle between records is kept as long as the peer's kernel answers. Setting
	// a deadline costs more than a small reply, so a write has up to armTime less.
	recordTimeout = 30 * time.Second
	writeTimeout  = 30 * time.Second
	armTime       = time.Second

	// lingerTimeout is the time that the server, after closing its side of a connection,
	// waits for the peer to close too, so that the last replies arrive.
	lingerTimeout = time.Second

	// lastMessageTimeout is the time that a client that can no longer write waits for a
	// last message from the server.
	lastMessageTimeout = 100 * time.Millisecond

	// portTries is the number of reserved ports to try.
	portTries = 32

	// placeHead is the number of bytes at a reply's start within which the data item must
	// be located to be received into its Sink: the longest header, and the start of any
	// READ results.
	placeHead = 1 << 10

	// quotedBytes is the number of bytes that an error quotes from a server that does not
	// speak RPC: its first line, in most cases.
	quotedBytes = 40

	// acceptDelay is the time that Serve waits after a temporary error, such as too many
	// open files.
	acceptDelay = 100 * time.Millisecond
)

// initialHeldReplies is the number of replies in the first batch. The client works on
// them while the reader serves the next calls. Each further batch is twice as large,
// because the client then has enough to do, and fewer writes suffice. With one processor,
// a client on this host cannot work concurrently.
var initialHeldReplies = func() int {
	if runtime.NumCPU() == 1 {
		return maxCalls
	}
	return 6
}()

// Line limits.
const (
	// defaultSilence is the time that a server may give no sign of life. Linux's client
	// waits equally long for a call.
	defaultSilence = 60 * time.Second

	// checksPerSilence is the number of checks for a sign of life in that time.
	checksPerSilence = 16

	// overdueTime is the time that a server that replies to other calls may owe a reply
	// before its connection is replaced and its calls are sent again: longer than a
	// COMMIT to a slow disk takes. The time doubles up to maxOverdue, as long as calls
	// are in flight, because the server may only be slow.
	overdueTime = 2 * time.Minute
	maxOverdue  = 16 * time.Minute

	// minProgressBytes is the number of bytes that the server's kernel must acknowledge
	// to count as a sign of life: more than a NULL call has.
	minProgressBytes = 4 << 10

	// A lost connection is replaced at once if it lasted for steadyTime, otherwise after
	// firstPause. After an attempt that fails, or a connection that served no call, the
	// pause doubles up to maxPause, the default of LineConfig.MaxPause. All pauses are shortened by up to a half at random,
	// so that a server's clients do not reconnect all at once.
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	steadyTime = time.Second

	// dialTime bounds one attempt to connect. TCP repeats its first packet at
	// growing intervals; a new attempt starts over.
	dialTime = 15 * time.Second

	// outageLogDelay is the time that calls wait for a server before the wait is logged:
	// longer than a server takes to restart.
	outageLogDelay = 5 * time.Second

	// minHintInterval is the minimum time between two effective hints, because hints can
	// be forged. hintTimeout is the time in which a server reported as restarted must
	// reply: several round trips around the world.
	minHintInterval = 5 * time.Second
	hintTimeout     = 500 * time.Millisecond

	// doubtInterval is the interval between calls of LineConfig.Doubt, and the time for
	// which a server must have sent nothing. It delays the change to another server.
	// doubtTime bounds one call.
	doubtInterval = 500 * time.Millisecond
	doubtTime     = 5 * time.Second
)

// A logger wraps a configured Log with a rate limit, so that peers cannot fill
// the log.
type logger struct {
	once    sync.Once
	limited *slog.Logger
}

// limitedLogger returns the rate-limited log; nil means slog.Default.
func (l *logger) limitedLogger(log *slog.Logger) *slog.Logger {
	l.once.Do(func() {
		if log == nil {
			log = slog.Default()
		}
		l.limited = lograte.Logger(log)
	})
	return l.limited
}
