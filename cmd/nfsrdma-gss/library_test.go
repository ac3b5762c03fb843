//go:build linux && (amd64 || arm64)

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
)

// TestNoLibrary checks the remedy for a missing library, and for one without the needed
// functions.
func TestNoLibrary(t *testing.T) {
	for _, name := range []string{"libnosuch.so.2", "libc.so.6"} {
		_, err := loadLibraries(name, kerberosLibrary)
		var failure *wire.Failure
		if assert.ErrorAs(t, err, &failure) {
			assert.Equal(t, wire.NoLibrary, failure.Reason)
			assert.Contains(t, failure.Text, "install libgssapi-krb5-2")
		}
	}
}

// TestForeignCache checks that the library is not given another user's cache, even if
// the configuration names it instead of the mount.
func TestForeignCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "krb5cc")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	full := "FILE:" + path
	acquired := 0
	l := &library{
		newKerberos:  func(*handle) int32 { return 0 },
		defaultCache: func(handle, *handle) int32 { return 0 },
		resolveCache: func(handle, string, *handle) int32 { return 0 },
		fullName:     func(_, _ handle, out **byte) int32 { *out = cText(full); return 0 },
		freeText:     func(handle, *byte) {},
		closeCache:   func(handle, handle) int32 { return 0 },
		startTickets: func(handle, handle, *handle) int32 { return 1 },
		acquireFrom: func(*uint32, handle, uint32, *oidSet, int32, *credStore, *handle, **oidSet, *uint32) uint32 {
			acquired++
			return majorNoCred << 16
		},
		displayStatus: func(*uint32, uint32, int32, *oid, *uint32, *buffer) uint32 { return 1 },
	}
	for _, name := range []string{"", full} {
		m := &mitInitiator{library: l, from: credSource{cache: name}}
		_, failure := m.firstToken(nil)
		assert.Equal(t, wire.NoTicket, failure.Reason)
		assert.Equal(t, 1, acquired, "the user's own cache")
		require.NoError(t, os.Chmod(path, 0o644))
		_, failure = m.firstToken(nil)
		assert.Equal(t, wire.NoTicket, failure.Reason)
		assert.Equal(t, full, failure.Cache)
		assert.Contains(t, failure.Text, "is not used")
		assert.Equal(t, 1, acquired)
		acquired = 0
		require.NoError(t, os.Chmod(path, 0o600))
	}
	require.NoError(t, os.Remove(path))
	_, failure := (&mitInitiator{library: l}).firstToken(nil)
	assert.Equal(t, "no ticket ("+full+"): run kinit", failure.Text)
	assert.Zero(t, acquired, "another user could create the cache in between")
}
