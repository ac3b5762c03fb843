package rpcbind

import "time"

// maxMappings is the largest number of mappings in a DUMP: a limit of our own.
// A usual host has some tens.
const maxMappings = 4096

// maxRPCBList is the largest list of DUMP in bytes, versions 3 and 4: a limit
// of our own, with room for some thousand entries.
const maxRPCBList = 256 << 10

// maxString is the largest netid, universal address, owner or
// transport-specific address in bytes: a limit of our own, because the
// standards have none. The path of a local socket, which may serve as an
// address, has 108.
const maxString = 1024

// maxPacket is the largest call or reply over UDP in bytes: the default of RPC
// libraries. Lists of more than 400 mappings need TCP.
const maxPacket = 8800

// A caller over UDP may use a false source address, and replies longer than
// their calls would amplify its traffic. The bytes that replies exceed their
// calls by may therefore not pass excessRate, with a burst for honest callers.
// A call above the limit gets no reply; the caller repeats it or uses TCP. A
// reply that is not longer than its call, such as the port of a program, always
// leaves.
const (
	excessRate  = 16 << 10 // bytes a second
	excessBurst = 64 << 10 // bytes
)

// portTries is how often Listen looks for a port that is free for both TCP and
// UDP.
const portTries = 32

// probeTime is how long a service of this host may take to accept a connection.
const probeTime = 2 * time.Second
