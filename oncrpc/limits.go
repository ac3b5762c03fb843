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

// Limits of our own.
const (
	// defaultMaxRecord bounds a call or reply, in bytes: 1 MiB of payload, the
	// most that NFS clients ask for, and room for a call header (at most 840
	// bytes) and the other arguments. It fits a pooled buffer.
	defaultMaxRecord = 1<<20 + 4<<10

	// maxCalls bounds the calls of one connection that are being received,
	// served or answered. Further calls of the client wait in the socket.
	maxCalls = 64

	// maxReverse bounds the calls under way to the client of a connection.
	// Further ones wait. It is as many as on RDMA.
	maxReverse = 16

	// A call under way beyond the first freeCalls of its connection counts as
	// callCost bytes, for its goroutine, its record and its reply's head if
	// these are short. memoryOfCalls bounds the sum for all such calls: the
	// calls of 64 connections that use all their slots. A party gets half of
	// it.
	freeCalls     = 4
	callCost      = 16 << 10
	memoryOfCalls = 64 << 20

	// readBuffer is the size in bytes of a connection's read buffer. One read
	// fetches several small records. Most bytes of a large record bypass the
	// buffer, except its start and end.
	readBuffer = 16 << 10

	// smallRecord is the length in bytes up to which a record or a data item is
	// not counted as memory. Most calls are that small, and must not wait
	// behind large ones.
	smallRecord = 4 << 10

	// memory bounds the bytes of large records under way in a server, and
	// separately the bytes of large replies without data in mappings: 128 calls
	// of 1 MiB in each direction, enough for two clients that use all their
	// calls. A party gets half of it. A connection gets half of that, or more if
	// the longest record needs more, because all clients of a bridge are one
	// host.
	memory       = 128 << 20
	partOfMemory = memory / 2
	partOfConn   = partOfMemory / 2

	// keptHead is the size in bytes up to which the memory of a client's call
	// is kept for the next call.
	keptHead = 64 << 10

	// batchSize bounds the bytes of replies, or of a client's calls, in one
	// write. It keeps a write short enough for writeTimeout.
	batchSize = 1 << 20

	// A reader that serves short calls holds their replies back while whole calls
	// are in its buffer: firstHeld replies, then twice as many, and so on, and at
	// most holdSize bytes.
	holdSize = 64 << 10

	// longRecord is how many bytes a call or a reply may have, if more bytes of
	// calls have arrived, for the reader to serve or to write it: storing or
	// sending more takes longer than waking another goroutine.
	longRecord = 32 << 10

	// recordTimeout bounds the time of a record from its first byte on, and
	// writeTimeout the time of a write of replies: 1 MiB in that time is a
	// quarter of a megabit per second. A connection that is idle between
	// records is kept as long as the peer's kernel answers. To set a deadline costs
	// more than a small reply, so a write has up to armTime less.
	recordTimeout = 30 * time.Second
	writeTimeout  = 30 * time.Second
	armTime       = time.Second

	// lingerTimeout is how long the server, after it has ended a connection,
	// waits for the peer to end it too. The last replies then arrive.
	lingerTimeout = time.Second

	// lastWords is how long a client that can no longer write waits for a last
	// message of the server.
	lastWords = 100 * time.Millisecond

	// portTries is how many reserved ports are tried.
	portTries = 32

	// placeHead is in how many bytes of a reply its data item must be found to be
	// received into its place: the longest header, and the start of any results of
	// READ.
	placeHead = 1 << 10

	// quoted is how many bytes an error quotes from a server that does not
	// speak RPC: its first line, in most cases.
	quoted = 40

	// acceptDelay is how long Serve waits after a temporary error, such as too
	// many open files.
	acceptDelay = 100 * time.Millisecond
)

// firstHeld is how many replies leave first. The client works on them while the
// reader serves the next calls. It has enough to do then, so that the next
// replies leave twice as many at a time, with fewer writes. On one processor the
// client, if it is on this host, cannot work meanwhile.
var firstHeld = func() int {
	if runtime.NumCPU() == 1 {
		return maxCalls
	}
	return 6
}()

// Limits of a Line.
const (
	// defaultSilence is how long a server may give no sign of life. Linux's
	// client has the same patience with a call.
	defaultSilence = 60 * time.Second

	// looks is how often in that time a Line checks for a sign of life.
	looks = 16

	// overdueTime is how long a server that answers other calls may owe a reply
	// before its connection is replaced and its calls are sent again: longer
	// than a COMMIT to a slow disk takes. The time doubles up to maxOverdue, as
	// long as calls are under way, because the server may only be slow.
	overdueTime = 2 * time.Minute
	maxOverdue  = 16 * time.Minute

	// bulk is how many bytes the server's kernel must take to count as a sign
	// of life: more than a call that asks for one.
	bulk = 4 << 10

	// A lost connection is replaced at once if it lasted for steadyTime,
	// otherwise after firstPause. After an attempt that fails, or a connection
	// that was of no use to any call, the pause doubles up to maxPause. All
	// pauses are shortened by up to a half at random, so that the clients of a
	// server do not come all at once.
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	steadyTime = time.Second

	// dialTime bounds one attempt to connect. TCP repeats its first packet at
	// growing intervals; a new attempt starts over.
	dialTime = 15 * time.Second

	// complainTime is how long calls wait for a server before the wait is
	// logged: longer than a server takes to restart.
	complainTime = 5 * time.Second

	// hintPause is the least time between two effective hints, because anybody
	// may send hints. hintTime is how long a server that is said to have been
	// restarted may take to answer: some ways around the world.
	hintPause = 5 * time.Second
	hintTime  = 500 * time.Millisecond
)

// A logger wraps a configured Log with a rate limit, so that peers cannot fill
// the log.
type logger struct {
	once sync.Once
	calm *slog.Logger
}

// of returns the rate-limited log; nil stands for slog.Default.
func (l *logger) of(log *slog.Logger) *slog.Logger {
	l.once.Do(func() {
		if log == nil {
			log = slog.Default()
		}
		l.calm = lograte.Logger(log)
	})
	return l.calm
}
