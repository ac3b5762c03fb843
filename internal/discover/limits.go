package discover

import "time"

// Limits of our own.
const (
	// maxMessage is the maximum length of a message, in bytes: the largest UD
	// datagram on any Ethernet (the path MTU below 1500).
	maxMessage = 1024

	// minRequest is the minimum length of requests, so that a reply without names
	// is no longer than its request.
	minRequest = 64

	// maxName bounds a host's name and a version, in bytes. maxPath bounds an
	// export's path, as MOUNT does (MNTPATHLEN of RFC 1813).
	maxName = 64
	maxPath = 1024

	// maxFound bounds the number of servers that a search lists.
	maxFound = 1024

	// maxExports is the number of exports that a search accepts per server; a reply
	// has some tens.
	maxExports = 4096

	// groupShareDivisor limits one client group's share of a total to half. A group
	// with an IPv6 network has any number of addresses.
	groupShareDivisor = 2

	// answersPerSecond and answersPerAddress bound the replies to requests without
	// a cookie, whose source may be forged. provenPerSecond and provenPerAddress
	// bound the replies to requests with one.
	answersPerSecond  = 200
	answersPerAddress = 20
	provenPerSecond   = 2000
	provenPerAddress  = 200

	// cookieTime is the minimum time for which a cookie is valid.
	cookieTime = time.Minute

	// maxClients bounds the number of clients registered for notices, some 60 bytes
	// each. maxPerAddress bounds those of one host, whose mounts share one port.
	maxClients    = 1024
	maxPerAddress = 16

	// registrationTime is the time for which a registration is valid, and renewTime is the
	// renewal interval.
	registrationTime = 24 * time.Hour
	renewTime        = 5 * time.Minute

	// registerTime is the time for which a client tries to register before it waits
	// for the next renewal.
	registerTime = 5 * time.Second

	// leaveTime is the time for which an unregistering client waits for the
	// server's confirmation, for which it may need another cookie.
	leaveTime = 500 * time.Millisecond

	// maxMonitors bounds the streams of counters.
	maxMonitors = 16

	// MinInterval and MaxInterval bound the time between two updates.
	MinInterval = 100 * time.Millisecond
	MaxInterval = time.Minute

	// leaseTime is the time for which a stream continues after its last request,
	// and renewalsPerLease is the number of renewals that a monitor sends in that
	// time. A lease has at least three intervals.
	leaseTime        = 15 * time.Second
	renewalsPerLease = 3

	// firstUpdate is the delay between a server's reply and the first update, which
	// is lost if it arrives before the reply.
	firstUpdate = 20 * time.Millisecond

	// countersSize is the size of the memory that a monitor registers, in bytes:
	// enough for maxProcs and maxTransports.
	countersSize  = 12 << 10
	maxTransports = 8
	maxProcs      = 96

	// saveTime is the interval for saving renewals, which only change when clients
	// expire. newsTime is the interval for saving other changes, so that a client
	// that repeatedly registers and unregisters causes few writes.
	saveTime = time.Minute
	newsTime = time.Second

	// noticeInterval is the interval at which a server checks for due notices, and
	// saves its clients.
	noticeInterval = 100 * time.Millisecond

	// receiveCount is the number of received messages that may wait for processing.
	receiveCount = 64
)

// noticeTimes are the times of notices, since the restart, to clients that have not
// registered again. The first is sent at once; any may be lost.
var noticeTimes = []time.Duration{0, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second}

// retryTimes are the waiting times before a request is repeated; the last one is
// used for all further repetitions.
var retryTimes = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, time.Second}
