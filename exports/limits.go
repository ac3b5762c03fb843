package exports

import "time"

// Limits of our own.
const (
	// maxText is the length in octets of the longest file: a hundred
	// thousand clients.
	maxText = 8 << 20

	// maxErrors is how many errors of a file are told: more are of one cause.
	maxErrors = 100

	// maxName is the length of the longest host's name (RFC 1035, Section
	// 2.3.4) and of the longest wildcard.
	maxName = 255

	// maxPath is the length in octets of the longest path: what MOUNT
	// carries (RFC 1813, Section 5.1.4).
	maxPath = 1024

	// lookupTime bounds one question to the name service.
	lookupTime = 5 * time.Second

	// maxLookups is how many questions are out at once, for as many clients
	// as may come at once after a restart. It bounds goroutines and sockets.
	maxLookups = 64

	// maxAnswers is how many answers are kept: more than there are clients.
	maxAnswers = 8192

	// maxReverse is how many names of one address are looked at.
	maxReverse = 8

	// freshTime is how long an answer stands, and noneTime one that there is
	// no such name: an administrator who adds it waits for that.
	freshTime = 5 * time.Minute
	noneTime  = 30 * time.Second

	// staleTime is how long an old answer is used while it is asked for
	// again, or the name service is down.
	staleTime = time.Hour

	// failTime is how long nobody asks again after a failure.
	failTime = 3 * time.Second
)
