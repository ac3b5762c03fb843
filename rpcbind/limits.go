package rpcbind

// maxMappings is how many mappings a DUMP may have: a limit of our own. A
// usual host has some tens.
const maxMappings = 4096
