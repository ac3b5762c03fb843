package discover

import "time"

// Limits of our own.
const (
	// maxMessage is the longest message, in bytes: the largest UD datagram on
	// any Ethernet (the path MTU below 1500).
	maxMessage = 1024

	// minRequest is the least length of requests, so that an answer without
	// names is no longer than its request.
	minRequest = 64

	// maxName bounds a host's name and a version, in bytes. maxPath bounds an
	// export's path, as MOUNT does (MNTPATHLEN of RFC 1813).
	maxName = 64
	maxPath = 1024

	// maxFound bounds the servers that a finder lists.
	maxFound = 1024

	// maxExports is how many exports a finder takes; each request asks for some
	// tens.
	maxExports = 4096

	// partyPart is the divisor for one party's share of a total: half. A party
	// with an IPv6 network has addresses for free.
	partyPart = 2

	// answersPerSecond and answersPerAddress bound the answers to requests
	// without a cookie, whose source may be forged. provenPerSecond and
	// provenPerAddress bound the answers to requests with one.
	answersPerSecond  = 200
	answersPerAddress = 20
	provenPerSecond   = 2000
	provenPerAddress  = 200

	// cookieTime is how long a cookie is valid, at least.
	cookieTime = time.Minute

	// maxClients bounds the clients registered for notices, some 60 bytes each.
	// maxPerAddress bounds those of one host, whose mounts share one port.
	maxClients    = 1024
	maxPerAddress = 16

	// Lifetime is how long a registration is valid, and renewTime is the
	// renewal interval.
	Lifetime  = 24 * time.Hour
	renewTime = 5 * time.Minute

	// registerTime is how long a client tries to register before it waits for
	// the next renewal.
	registerTime = 5 * time.Second

	// leaveTime is how long a leaving client waits for the server's
	// confirmation, for which it may need another cookie.
	leaveTime = 500 * time.Millisecond

	// maxMonitors bounds the streams of counters.
	maxMonitors = 16

	// MinInterval and MaxInterval bound the time between two updates.
	MinInterval = 100 * time.Millisecond
	MaxInterval = time.Minute

	// leaseTime is how long a stream continues after its last request, and
	// renewed is how often a monitor renews in that time. A lease has at least
	// three intervals.
	leaseTime = 15 * time.Second
	renewed   = 3

	// firstUpdate is the delay between a server's answer and the first update,
	// which is lost if it arrives before the answer.
	firstUpdate = 20 * time.Millisecond

	// CountersRoom is the memory that a monitor registers, in bytes: room for
	// maxProcs and maxTransports.
	CountersRoom  = 12 << 10
	maxTransports = 8
	maxProcs      = 96

	// saveTime is the interval for saving renewals, which only change when
	// clients expire. newsTime is the interval for saving other changes, so that
	// a client that comes and goes causes few writes.
	saveTime = time.Minute
	newsTime = time.Second

	// tendTime is how often a server checks for due notices, and saves its
	// clients.
	tendTime = 100 * time.Millisecond

	// recvs is how many received messages may wait for processing.
	recvs = 64
)

// noticeTimes are the times of notices, since the restart, to clients that have
// not registered again. The first goes at once; any may be lost.
var noticeTimes = []time.Duration{0, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second}

// askTimes are the waiting times before a request is repeated; the last one is
// used for all further repetitions.
var askTimes = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, time.Second}
