//go:build !amd64 && !s390x

package fusefs

// legacyNonExclusiveCalls holds the nonExclusiveCalls that newer architectures
// lack.
var legacyNonExclusiveCalls map[uint64]openFlags
