package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// TestAccepted checks the flavors of --sec, with nfsrdma-gss in PATH and
// without.
func TestAccepted(t *testing.T) {
	a := newApp(io.Discard, io.Discard)
	t.Setenv("PATH", t.TempDir())
	flavors, helper, err := a.requestedFlavors()
	require.NoError(t, err)
	assert.Nil(t, flavors)
	assert.Empty(t, helper)
	require.NoError(t, a.sec.Set("sys:krb5"))
	_, _, err = a.requestedFlavors()
	assert.Equal(t, errNoContextHelper, err)

	program := filepath.Join(os.Getenv("PATH"), contextHelper)
	require.NoError(t, os.WriteFile(program, nil, 0o755))
	require.NoError(t, a.sec.Set("krb5p:sys"))
	flavors, helper, err = a.requestedFlavors()
	require.NoError(t, err)
	assert.Equal(t, []uint32{rpcmsg.AuthKrb5p, rpcmsg.AuthSys}, flavors)
	assert.Equal(t, program, helper)
	a.sec = nil
	flavors, helper, err = a.requestedFlavors()
	require.NoError(t, err)
	assert.Nil(t, flavors)
	assert.Equal(t, program, helper)
}

// TestNoCores checks that a process with keys of security contexts leaves no core dump, and
// that one without may.
func TestNoCores(t *testing.T) {
	var before, after unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &before))
	before.Cur = before.Max
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_CORE, &before))
	t.Setenv("PATH", t.TempDir())
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("PATH"), contextHelper), nil, 0o755))
	s, cfg := &session{target: server{host: "server"}}, nfsrdma.ClientConfig{}
	require.NoError(t, newApp(io.Discard, io.Discard).setSecurity(s, &cfg))
	cfg.Wrap(nil)
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &after))
	assert.Equal(t, before, after)
	_ = cfg.Kerberos(t.Context())
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &after))
	assert.LessOrEqual(t, after.Max, uint64(1))
}

// TestService checks that a server's name is used as the user typed it.
func TestService(t *testing.T) {
	for _, host := range []string{"server", "Server.Example", "localhost"} {
		got, err := serviceName(t.Context(), host)
		require.NoError(t, err)
		assert.Equal(t, "nfs@"+host, got)
	}
}

// TestOneHelper checks that all connections of a process share one open nfsrdma-gss file.
func TestOneHelper(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	program := filepath.Join(os.Getenv("PATH"), contextHelper)
	require.NoError(t, os.WriteFile(program, nil, 0o755))
	a := newApp(io.Discard, io.Discard)
	for range 3 {
		s, cfg := &session{target: server{host: "server"}}, nfsrdma.ClientConfig{}
		require.NoError(t, a.setSecurity(s, &cfg))
		cfg.Wrap(nil)
	}
	open := 0
	names, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, name := range names {
		if at, err := os.Readlink(name); err == nil && at == program {
			open++
		}
	}
	assert.Equal(t, 1, open)
}

// TestCacheName checks that a relative path in $KRB5CCNAME holds in the helper's directory.
func TestCacheName(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, want := range map[string]string{
		"": "", "/tmp/cc": "/tmp/cc", "cc": "FILE:" + dir + "/cc", "FILE:cc": "FILE:" + dir + "/cc", "FILE:/tmp/cc": "FILE:/tmp/cc",
		"DIR:d": "DIR:" + dir + "/d", "KEYRING:persistent:0": "KEYRING:persistent:0", "KCM:": "KCM:",
	} {
		assert.Equal(t, want, cacheName(name), name)
	}
}
