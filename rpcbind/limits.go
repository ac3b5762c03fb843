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

// portTries is how often Listen looks for a port that is free for both TCP and
// UDP.
const portTries = 32

// probeTime is how long a service of this host may take to accept a connection.
const probeTime = 2 * time.Second
