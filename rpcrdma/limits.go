package rpcrdma

import (
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// Defaults of a Server.
const (
	defaultInline     = 4096
	defaultCredits    = 128
	defaultMaxPayload = 1 << 20
	defaultMaxMemory  = 256 << 20
	defaultMaxInline  = 256 << 20
)

// DefaultMaxConns is the default of Server.MaxConns.
const DefaultMaxConns = 1024

// defaultReverse is how many calls in the reverse direction may be under way on
// a connection. Linux's client grants 16 to 32, and its server asks for 2.
const defaultReverse = 16

// Limits of our own.
const (
	// maxCredits bounds Server.Credits. Each credit costs a receive buffer and
	// up to two replies per connection.
	maxCredits = 4096

	// maxPayload bounds Server.MaxPayload, in bytes.
	maxPayload = 64 << 20

	// headSlack is how many bytes an RPC message may have around its payload:
	// credential, file handles, attributes, names. RFC 5531 bounds the first,
	// NFSv3 the others; all together stay below 8 KiB, and a directory listing
	// has its entries in the payload.
	headSlack = 64 << 10

	// extraRecvs is how many messages a connection takes beyond its
	// grant, for a peer that counts its calls a little differently.
	extraRecvs = 8

	// callSize is the memory of a call itself, in bytes. listGrowth is how many
	// times the length of long chunk lists a call takes besides: 60 KiB if the
	// lists are at their limits. Lists of up to shortLists bytes are included
	// in callSize.
	callSize   = 1 << 10
	listGrowth = 12
	shortLists = 64

	// maxBlames is how many calls that ended a connection are remembered, and
	// blameTime for how long. Linux repeats such calls within 30 s, and each
	// XID once.
	maxBlames = 64
	blameTime = 5 * time.Minute

	// maxSpares is how many ended calls a connection keeps for reuse, if their
	// chunk lists were short.
	maxSpares = 32

	// maxServing is how many calls a server runs at once, including calls that
	// wait in the handler: each has a goroutine. Work that may block threads of
	// the operating system, of which Go gives a process 10,000, has bounds of
	// its own.
	maxServing = 4096

	// shortReply is how many bytes of chunks a call may have for its reply if a
	// connection's reader serves the call: as many as are read and copied in
	// some microseconds.
	shortReply = 32 << 10

	// shortSealed is how many bytes of a call, and of room for its reply, may be
	// signed or encrypted on a connection's reader.
	shortSealed = 4 << 10

	// minMapped is the least room, in bytes, for a reply's data item that may
	// be in a mapping.
	minMapped = 16 << 10

	// slowByte is by how much each pulled byte adds to the time that a call may
	// take on a reader: writing from the caches takes less, and another goroutine
	// would fetch the byte from memory.
	slowByte = time.Nanosecond

	// minAside is how many bytes must be pulled inside of TLS for a call so that
	// its reader hands over the reading: to store and to decrypt so many takes
	// longer than to wake another goroutine.
	minAside = 128 << 10

	// stallTime is how long a peer may leave posted work undone before the peer
	// is taken for dead: it neither answers RDMA Reads nor reads its replies,
	// and holds memory. A peer has between one and two of these periods.
	// Linux's own patience with a call is 60 s.
	stallTime = 60 * time.Second

	// minCounters and maxCounters bound the delegation counters of a connection,
	// in words: the lease's and one slot, and as many slots as Immediate Data
	// can name by 24 bits.
	minCounters = 2
	maxCounters = 1 << 24

	// pullTime is how long a call must have waited for memory, and the oldest
	// RDMA Reads of a connection must have been under way, before that
	// connection is ended, however much data it moves.
	pullTime = 30 * time.Second

	// counterShare is the fraction of a party's memory for chunks that the
	// party may have in addition for delegation counters: one in counterShare.
	counterShare = 8

	// minMaxInline bounds Server.MaxInline from below, in bytes: some calls
	// with the longest inline messages.
	minMaxInline = 1 << 20
)

// Limits of a requester.
const (
	// firstDelay separates the first message from the MPA Reply. nudgeAfter is
	// when a server that has not answered yet is sent a message to wake it:
	// Linux's siw may not see a first message that arrives within about a
	// millisecond.
	firstDelay = 3 * time.Millisecond
	nudgeAfter = 100 * time.Millisecond

	// callRoom is the room for the transport header of a call, in bytes. The
	// header has one segment in the Read list, and one in the Write list or the
	// Reply chunk.
	callRoom = wire.MinLen + readChunkLen + writeChunkLen

	readChunkLen  = 4 + 4 + 16 // of one segment, in bytes
	writeChunkLen = 4 + 4 + 16

	// maxCallHeader is the length of the longest RPC call before its arguments,
	// in bytes: ten words, a credential with a machine's name of 255 bytes and
	// 16 groups.
	maxCallHeader = rpcmsg.CallHeaderLen + 6*4 + 256 + 16*4
)
