package bridge

import "time"

// Limits of our own, in bytes.
const (
	// maxPayload is the maximum length for a READ, WRITE or directory listing that
	// the bridge forwards: the size of a pooled buffer. Clients request 1 MiB at
	// most, and no known server offers more than 4.
	maxPayload = 4 << 20

	// MaxRecord is the record size for maxPayload, with credential, handles and
	// attributes.
	MaxRecord = maxPayload + 64<<10

	// maxList bounds the lists of MOUNT's DUMP and EXPORT, which the protocol does
	// not bound. mountResultsSize bounds all other MOUNT results: a handle and some
	// authentication flavors.
	maxList          = 1 << 20
	mountResultsSize = 1 << 10

	// unknownResults bounds the results from programs that the bridge does not
	// know. NFSACL's results with the longest lists are half of that.
	unknownResults = 64 << 10

	// sealedPayload bounds data and listings if the bridge cannot read the
	// arguments with their length. sealOverhead is a seal's maximum length.
	sealedPayload = 1 << 20
	sealOverhead  = 1 << 10

	// copyLimit is the maximum length at which a reply is copied, so that its
	// receive buffer is free before the client has received the reply.
	copyLimit = 4 << 10
)

// maxOwnConns bounds the number of clients with their own connection: those from
// reserved ports, and the others. Each takes a server connection, and half a MiB of
// reply buffers.
const maxOwnConns = 128

// dialTime is the time that a client waits for its own connection.
const dialTime = 15 * time.Second

// logInterval is the minimum interval between log lines about calls that failed
// here. A client could otherwise fill the log.
const logInterval = time.Second
