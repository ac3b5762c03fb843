package rpcbind

import "time"

// maxMappings is how many mappings a DUMP may have: a limit of our own. A
// usual host has some tens.
const maxMappings = 4096

// maxRPCBList is the bytes of a list of DUMP, versions 3 and 4: a limit of our own,
// with room for some thousand entries.
const maxRPCBList = 256 << 10

// maxString is the bytes of a netid, a universal address, an owner or a
// transport's own address: a limit of our own, for the standards have none. The
// path of a local socket, which may stand for an address, has 108.
const maxString = 1024

// maxPacket is the bytes of a call or a reply over UDP: what RPC libraries take
// by default. Lists of more than 400 mappings are for TCP.
const maxPacket = 8800

// Who calls over UDP may be somebody else than he says, and answers that are longer
// than their calls would multiply what he sends. So what they are longer may not
// exceed so many bytes a second, with some lists at once for those who ask in
// earnest; calls beyond that have no answer, and come again or over TCP. Answers
// that are not longer, as where a program is, always go.
const (
	excessRate  = 16 << 10 // bytes a second
	excessBurst = 64 << 10 // bytes
)

// portTries is how often a port is sought that is free for both TCP and UDP.
const portTries = 32

// probeTime is how long a service of this host may take to take a connection.
const probeTime = 2 * time.Second
