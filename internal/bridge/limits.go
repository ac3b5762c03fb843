package bridge

import "time"

// Limits of our own, in bytes.
const (
	// MaxPayload is the longest READ, WRITE and directory listing that the
	// bridge passes on: the size of a pooled buffer. Clients ask for 1 MiB at
	// most, and no known server offers more than 4.
	MaxPayload = 4 << 20

	// MaxRecord is the record size for MaxPayload, with credential, handles and
	// attributes.
	MaxRecord = MaxPayload + 64<<10

	// longList bounds the lists of MOUNT's DUMP and EXPORT, which the protocol
	// does not bound. shortResults bounds all other results of MOUNT: a handle
	// and some authentication flavours.
	longList     = 1 << 20
	shortResults = 1 << 10

	// unknownResults bounds the results of programs that the bridge does not
	// know. NFSACL's results with the longest lists are half of that.
	unknownResults = 64 << 10

	// sealedPayload bounds data and listings if the bridge cannot read the
	// arguments with their length. sealRoom is the room for a seal.
	sealedPayload = 1 << 20
	sealRoom      = 1 << 10

	// copied is the length up to which a reply is copied, so that its receive
	// buffer is free before the client has taken the reply.
	copied = 4 << 10
)

// maxLines bounds the clients with a line of their own: those from reserved ports, and
// the others. A line takes a connection of the server, and half a MiB of buffers for
// replies.
const maxLines = 128

// dialTime is how long a client waits for its line.
const dialTime = 15 * time.Second

// complainEvery is the interval between log lines about calls that failed here.
// A client could otherwise fill the log.
const complainEvery = time.Second
