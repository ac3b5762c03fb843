package rpcbind

// maxMappings is how many mappings a DUMP may have: a limit of our own. A
// usual host has some tens.
const maxMappings = 4096

// maxPacket is the octets of a call or a reply over UDP: what RPC libraries take
// by default. Lists of more than 400 mappings are for TCP.
const maxPacket = 8800
