package oncrpc

import (
	"log/slog"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lograte"
)

// Limits of our own.
const (
	// defaultMaxRecord is the octets of a call or reply: 1 MiB of payload,
	// the most that NFS clients ask for, and room for a call header (at
	// most 840 octets) and the other arguments. It fits a pooled buffer.
	defaultMaxRecord = 1<<20 + 4<<10

	// maxCalls is the number of calls of one connection that are received,
	// served or answered at one time. The client's next call then waits in
	// the socket.
	maxCalls = 64

	// A call under way beyond the first freeCalls of its connection counts with
	// callCost octets, for its goroutine, its record and its reply's head as far
	// as these are short. memoryOfCalls is what such calls may have together: those
	// of 64 connections that use all their calls. A party gets half of it.
	freeCalls     = 4
	callCost      = 16 << 10
	memoryOfCalls = 64 << 20

	// defaultMaxConns is the number of connections. Each costs a descriptor,
	// a read buffer and a goroutine even while it is idle.
	defaultMaxConns = 4096

	// maxOutcomes is how many outcomes of a procedure are told apart: NFS has
	// 29 statuses, of which most fit few procedures.
	maxOutcomes = 16

	// readBuffer is the octets of a connection's read buffer: several
	// small records come with one read, and of a large one all but its
	// start and end go past it.
	readBuffer = 16 << 10

	// smallRecord is the octets up to which a record or a data item is not
	// counted as memory: most calls, which shall not wait behind large
	// ones.
	smallRecord = 4 << 10

	// memory is the octets of large records under way in a server, and
	// once more of large replies: 128 calls of 1 MiB each way,
	// which is two clients that use all their calls. One party, an IPv4
	// address or 64 bits of an IPv6 one, gets half of it, and one connection
	// half of that, where it is enough for the longest record: all clients of
	// a bridge are one host.
	memory       = 128 << 20
	partOfMemory = memory / 2
	partOfConn   = partOfMemory / 2

	// keptHead is the octets up to which the memory of a client's call is kept
	// for the next.
	keptHead = 64 << 10

	// batchSize is the octets of replies, or of a client's calls, that one
	// write gathers. It keeps a write short enough for writeTimeout.
	batchSize = 1 << 20

	// recordTimeout is how long a record may take from its first octet on,
	// and writeTimeout how long a write of replies: 1 MiB in that time is
	// a quarter of a megabit per second. A connection that is idle between
	// records is kept for as long as the peer's kernel answers.
	recordTimeout = 30 * time.Second
	writeTimeout  = 30 * time.Second

	// lingerTimeout is how long a connection that the server ends waits
	// for the peer to end it too, so that the last replies arrive.
	lingerTimeout = time.Second

	// lastWords is how long a client that cannot write any more waits for
	// what the server has to say to that.
	lastWords = 100 * time.Millisecond

	// quoted is the octets that an error repeats of what a server sent that
	// speaks no RPC: its first line, in most cases.
	quoted = 40

	// acceptDelay is how long Serve waits before it tries again after an
	// error that passes, such as too many open files.
	acceptDelay = 100 * time.Millisecond

	// defaultReplayMemory is the octets of kept replies: some 80,000 of
	// usual ones. A client needs one for each call that it has under way
	// when its connection is lost, which is a few hundred.
	defaultReplayMemory = 32 << 20

	// defaultReplayAge is how long replies are kept: for longer than a
	// client takes to notice a lost connection (Linux waits 60 s for a
	// reply) and to make the next.
	defaultReplayAge = 2 * time.Minute

	// maxReplay is the octets of the longest reply that is kept. Those of
	// NFSv3's procedures that must not be executed twice have 400 at most.
	maxReplay = 1 << 10

	// replayCost is the octets that a kept reply takes beside its own: the
	// entry, and its place in a map.
	replayCost = 256

	// replaySummed is how many octets of a call are summed: its header with the
	// longest credential and verifier that programs see, the file handle, and a
	// name or the start of the data.
	replaySummed = 512

	// replayExpires is how many replies that are too old one call throws away, so
	// that none waits for all that others have left behind.
	replayExpires = 64
)

// A logger is what a Log is used through: peers do not fill it.
type logger struct {
	once sync.Once
	calm *slog.Logger
}

// of returns it; nil stands for slog.Default.
func (l *logger) of(log *slog.Logger) *slog.Logger {
	l.once.Do(func() {
		if log == nil {
			log = slog.Default()
		}
		l.calm = lograte.Logger(log)
	})
	return l.calm
}
