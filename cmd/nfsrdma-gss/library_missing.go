//go:build !(linux && (amd64 || arm64))

package main

import (
	"runtime"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
)

// beginContext fails: only other architectures' calling conventions and structures are
// known.
func beginContext(*wire.Request) (initiator, []byte, error) {
	return nil, nil, &wire.Failure{Reason: wire.NoLibrary, Text: "nfsrdma-gss cannot use MIT's Kerberos on " + runtime.GOARCH}
}
