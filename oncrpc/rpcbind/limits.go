package rpcbind

import "time"

// maxMappings is the maximum number of mappings in a DUMP, an implementation limit. A
// usual host has some tens.
const maxMappings = 4096

// maxRPCBList is the maximum size in bytes of a DUMP list in versions 3 and 4, an
// implementation limit, with space for some thousand entries.
const maxRPCBList = 256 << 10

// maxString is the maximum length in bytes of a netid, universal address, owner or
// transport-specific address: an implementation limit, because the standards have none. A
// local socket's path, which may serve as an address, has 108.
const maxString = 1024

// maxPortTries is the number of attempts by Listen to find a port that is free for both
// TCP and UDP.
const maxPortTries = 32

// probeTimeout is the time in which a service on this host must accept a connection.
const probeTimeout = 2 * time.Second
