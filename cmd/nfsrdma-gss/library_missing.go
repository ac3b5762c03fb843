//go:build !(linux && (amd64 || arm64))

package main

import (
	"runtime"

	"github.com/nfsrdma/nfsrdma/tickets/wire"
)

// begin says that this machine is not one of those whose calling conventions and
// structures are known.
func begin(*wire.Request) (initiator, []byte, error) {
	return nil, nil, &wire.Failure{Reason: wire.NoLibrary, Words: "nfsrdma-gss cannot use MIT's Kerberos on " + runtime.GOARCH}
}
