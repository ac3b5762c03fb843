package rpcrdma

import (
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// Defaults of a Server.
const (
	defaultInline     = 4096
	defaultCredits    = 128
	defaultMaxPayload = 1 << 20
	defaultMaxMemory  = 256 << 20
	defaultMaxInline  = 256 << 20
	defaultMaxConns   = 1024
)

// defaultReverse is how many calls in the reverse direction may be under way on
// a connection. Linux's client grants 16 to 32, and its server asks for 2.
const defaultReverse = 16

// Limits of our own.
const (
	// maxCredits bounds what a Server may be told to grant. Each credit
	// costs a receive buffer and up to two replies per connection.
	maxCredits = 4096

	// maxPayload bounds Server.MaxPayload, in octets.
	maxPayload = 64 << 20

	// headSlack is how many octets an RPC message may have around its
	// payload: credential, file handles, attributes, names. RFC 5531
	// bounds the first, NFSv3 the others; all together stay below 8 KiB,
	// and a directory listing has its entries in the payload.
	headSlack = 64 << 10

	// callHeaderLen is the length of the shortest header of an RPC call, in
	// octets: its arguments begin behind that.
	callHeaderLen = 10 * 4

	// extraRecvs is how many messages a connection takes beyond its
	// grant, for a peer that counts its calls a little differently.
	extraRecvs = 8

	// callSize is what a call takes for itself, in octets, and listGrowth
	// how many times the octets of long chunk lists it takes beside: 60 KiB
	// where the lists are at their limits. Those of up to shortLists octets
	// are counted with callSize.
	callSize   = 1 << 10
	listGrowth = 12
	shortLists = 64

	// maxBlames is how many calls that ended a connection are remembered, and
	// blameTime for how long: Linux makes them again within 30 s, and each
	// XID once.
	maxBlames = 64
	blameTime = 5 * time.Minute

	// maxSpares is how many ended calls a connection keeps for later, if
	// their chunk lists were short.
	maxSpares = 32

	// maxServing is how many calls a server runs at once, those included that
	// wait in the handler: each has a goroutine. What may block threads of the
	// operating system, of which Go gives a process 10,000, has bounds of its own.
	maxServing = 4096

	// shortReply is how many octets of chunks a call may have for its reply that
	// a connection's reader serves: what is read and copied in some microseconds.
	shortReply = 32 << 10

	// minMapped is how many octets of room a reply's data item has at least that
	// may lie in a mapping.
	minMapped = 64 << 10

	// slowCall is how long a call takes that is better served by another
	// goroutine than the reader: many times what it costs to hand it over. That is
	// for a processor that goes from one goroutine to another and back in
	// quickSwitch or less; where it takes several times that, as on one that is
	// emulated, so may the call, up to maxSlowness times slowCall. For each octet
	// that was pulled it may take slowOctet more: what is written from the caches
	// is written in less, and another goroutine would get it from memory. Calls of
	// its kind are served by others, some at first, and up to maxAway at a time.
	slowCall    = 150 * time.Microsecond
	slowOctet   = time.Nanosecond
	quickSwitch = 500 * time.Nanosecond
	maxSlowness = 32
	maxAway     = 256
	callKinds   = 128 // that are told apart, more or less

	// maxTurn is how many calls a reader serves before others may run.
	maxTurn = 64

	// watchdogPeriod is how often the watchdog looks at the readers: one that is kept
	// is relieved after one to two of these. As long as it finds none, the period
	// doubles up to sentryCalm, since each look wakes a thread. Where it finds a
	// reader at nothing maxRest times, it looks at that one no more.
	watchdogPeriod = time.Millisecond
	sentryCalm     = 16 * time.Millisecond
	maxRest        = 8

	// stallTime is how long a peer may leave posted work undone before it
	// is taken for dead: it neither answers RDMA Reads nor reads its
	// replies, and holds memory. A peer is given between one and two of
	// these. Linux's own patience with a call is 60 s.
	stallTime = 60 * time.Second

	// minCounters and maxCounters bound the delegation counters of a connection,
	// in words: the lease's and one slot, and as many slots as Immediate Data
	// can name by 24 bits.
	minCounters = 2
	maxCounters = 1 << 24

	// pullTime is how long a call waits for memory, and the oldest RDMA Reads of a
	// connection are under way, before the connection loses it however much it moves.
	pullTime = 30 * time.Second

	// counterShare is what part of its memory for chunks a party may have beside it
	// for delegation counters: one in so many.
	counterShare = 8

	// minMaxInline bounds Server.MaxInline from below, in octets: some calls
	// with the longest inline messages.
	minMaxInline = 1 << 20
)

// Limits of a requester.
const (
	// firstDelay keeps the first message away from the MPA Reply, and
	// nudgeAfter is when a server that has not answered yet gets something
	// to wake it: Linux's siw may not see a first message that comes within
	// about a millisecond.
	firstDelay = 3 * time.Millisecond
	nudgeAfter = 100 * time.Millisecond

	// callRoom is the room for the transport header of a call, in octets:
	// it has one segment in the Read list, and one in the Write list or
	// the Reply chunk.
	callRoom = wire.MinLen + readChunkLen + writeChunkLen

	readChunkLen  = 4 + 4 + 16 // of one segment, in octets
	writeChunkLen = 4 + 4 + 16

	// maxCallHeader is the length of the longest RPC call before its
	// arguments, in octets: ten words, a credential with a machine's name
	// of 255 octets and 16 groups.
	maxCallHeader = callHeaderLen + 6*4 + 256 + 16*4
)

// Limits of a line.
const (
	// defaultSilence is how long a server may give no sign of life. Linux's
	// client has the same patience with a call.
	defaultSilence = 60 * time.Second

	// looks is how often in that time a line looks for one.
	looks = 16

	// bulk is how many octets the server's kernel must take for a sign of
	// life: more than a call that asks for one.
	bulk = 4 << 10

	// A lost connection is replaced at once, if it lasted for steadyTime,
	// and else after firstPause. What fails, or was of no use to any call,
	// is tried again after twice as long each time up to maxPause. All
	// pauses are shortened by up to a half at random, so that the clients
	// of a server do not come all at once.
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	steadyTime = time.Second

	// dialTime bounds one attempt to connect. TCP repeats its first packet
	// ever more rarely; a new attempt begins from the start.
	dialTime = 15 * time.Second

	// complainTime is how long calls wait for a server before that is
	// logged: longer than it takes to restart one.
	complainTime = 5 * time.Second

	// hintPause is the least time between two hints that do something, for
	// anybody may give some, and hintTime how long a server that is said to
	// have been restarted may take to answer: some ways around the world.
	hintPause = 5 * time.Second
	hintTime  = 500 * time.Millisecond
)
