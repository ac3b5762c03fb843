//go:build linux && (amd64 || arm64)

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/tickets/wire"
)

// TestNoLibrary checks that a library that is missing, or another, is a failure
// with a remedy.
func TestNoLibrary(t *testing.T) {
	for _, name := range []string{"libnosuch.so.2", "libc.so.6"} {
		_, err := load(name, kerberosLibrary)
		var failure *wire.Failure
		if assert.ErrorAs(t, err, &failure) {
			assert.Equal(t, wire.NoLibrary, failure.Reason)
			assert.Contains(t, failure.Words, "install libgssapi-krb5-2")
		}
	}
}
