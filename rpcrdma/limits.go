package rpcrdma

import (
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// Server defaults.
const (
	defaultInline     = 4096
	defaultCredits    = 128
	defaultMaxPayload = 1 << 20
	defaultMaxMemory  = 256 << 20
	defaultMaxInline  = 256 << 20
)

// DefaultMaxConns is the default for Server.MaxConns.
const DefaultMaxConns = 1024

// defaultReverse is the number of reverse calls that may be in flight on a
// connection. Linux's client grants 16 to 32, and its server requests 2.
const defaultReverse = 16

// Limits of this implementation.
const (
	// maxCredits bounds Server.Credits. Each credit costs a receive buffer and
	// up to two replies per connection.
	maxCredits = 4096

	// maxPayload bounds Server.MaxPayload, in bytes.
	maxPayload = 64 << 20

	// headSlack is the maximum number of bytes in an RPC message other than its
	// payload: credential, file handles, attributes, names. RFC 5531 bounds the
	// first, NFSv3 the others; together they stay below 8 KiB, and a directory
	// listing has its entries in the payload.
	headSlack = 64 << 10

	// extraRecvs is the number of messages that a connection accepts beyond its
	// grant, for a peer that counts its calls slightly differently.
	extraRecvs = 8

	// callSize is the memory for a call itself, in bytes. Long chunk lists use
	// listGrowth times their length in addition: 60 KiB if the lists are at
	// their limits. Lists up to shortLists bytes are included in callSize.
	callSize   = 1 << 10
	listGrowth = 12
	shortLists = 64

	// maxFailedCalls is the number of recorded calls that terminated a connection, and
	// failedCallTime is the time that each is kept. Linux retransmits such calls within 30 s, and
	// each XID once.
	maxFailedCalls = 64
	failedCallTime = 5 * time.Minute

	// maxFreeCalls is the number of completed calls that a connection keeps for
	// reuse, if their chunk lists were short.
	maxFreeCalls = 32

	// maxServing is the number of calls that a server runs concurrently,
	// including calls that wait in the handler: each has a goroutine. Work that
	// may block operating-system threads, of which Go allows a process 10,000,
	// has its own limits.
	maxServing = 4096

	// shortReply is the maximum size of a call's reply chunks, in bytes, if a
	// connection's reader serves the call: as much as is read and copied in
	// some microseconds.
	shortReply = 32 << 10

	// shortSealed is the maximum size of a call, and of its reply, in bytes,
	// that may be signed or encrypted on a connection's reader.
	shortSealed = 4 << 10

	// minMapped is the minimum space, in bytes, for a reply's data item that
	// may be in a file mapping.
	minMapped = 16 << 10

	// timePerByte is the time that each pulled byte adds to what a call may take on a reader:
	// writing from the caches takes less, and another goroutine would fetch the byte from memory.
	timePerByte = time.Nanosecond

	// minHandOffPull is the number of bytes pulled within TLS from which a call's reader hands off
	// reading: storing and decrypting that many takes longer than waking another goroutine.
	minHandOffPull = 128 << 10

	// stallTime is the time after which a peer that makes no progress on posted
	// work is considered dead: it neither answers RDMA Reads nor reads its
	// replies, and holds memory. The actual time is between one and two such
	// periods. Linux's own timeout for a call is 60 s.
	stallTime = 60 * time.Second

	// minCounters and maxCounters bound a connection's delegation counters, in
	// words: the lease's and one slot, and as many slots as Immediate Data can
	// name by 24 bits.
	minCounters = 2
	maxCounters = 1 << 24

	// pullTime is the time that a call must have waited for memory, and that a
	// connection's oldest RDMA Reads must have been in flight, before that
	// connection is aborted, however much data it moves.
	pullTime = 30 * time.Second

	// counterShare is the divisor for the memory that a party may use for
	// delegation counters, in addition to its memory for chunks.
	counterShare = 8

	// minMaxInline is the minimum for Server.MaxInline, in bytes: some calls
	// with the longest inline messages.
	minMaxInline = 1 << 20
)

// Requester limits.
const (
	// firstDelay separates the first message from the MPA Reply. nudgeAfter is
	// the time after which a server that has not replied yet is sent a message
	// to wake it: Linux's siw may not see a first message that arrives within
	// about a millisecond.
	firstDelay = 3 * time.Millisecond
	nudgeAfter = 100 * time.Millisecond

	// callHeaderSpace is the space for a call's transport header, in bytes. The header
	// has one segment in the Read list, and one in the Write list or the Reply
	// chunk.
	callHeaderSpace = wire.MinLen + readChunkLen + writeChunkLen

	readChunkLen  = 4 + 4 + 16 // with one segment, in bytes
	writeChunkLen = 4 + 4 + 16

	// maxCallHeader is the maximum length of an RPC call before its arguments,
	// in bytes: ten words, and a credential with a machine name of 255 bytes
	// and 16 groups.
	maxCallHeader = rpcmsg.CallHeaderLen + 6*4 + 256 + 16*4
)
