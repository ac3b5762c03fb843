package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// runCommand runs the program to its end.
func runCommand(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		status, stdout, stderr := runCommand(t, arg)
		assert.Equal(t, cli.ExitOK, status, arg)
		assert.Empty(t, stderr, arg)
		assert.Regexp(t, `^nfsrdmad \S+ `+runtime.Version()+` linux/\w+\n$`, stdout, arg)
	}
}

func TestUsageErrors(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"nosuch"}, `unknown command "nosuch" for "nfsrdmad"`},
		{[]string{"version", "x"}, `unknown command "x" for "nfsrdmad version"`},
		{[]string{"serve"}, "serve needs a directory: nfsrdmad serve DIR, or --exports FILE"},
		{[]string{"serve", "--exports=x", "/"}, "DIR and --exports cannot be combined: write DIR into the file, or omit --exports"},
		{[]string{"serve", "--exports=x", "--ro"}, "--ro, --clients, --no-root-squash, --exclusive, --sec and --xprtsec are for DIR: write ro, clients, no_root_squash, exclusive, sec= and xprtsec= into the file of --exports"},
		{[]string{"serve", "--exports=x", "--exclusive"}, "--ro, --clients, --no-root-squash, --exclusive, --sec and --xprtsec are for DIR: write ro, clients, no_root_squash, exclusive, sec= and xprtsec= into the file of --exports"},
		{[]string{"serve", "--nosuch", "/"}, "unknown flag: --nosuch: nfsrdmad serve --help lists the flags"},
		{[]string{"serve", "--listen", "20049", "/"}, "--listen 20049 is not an address with a port: write one such as :2049, 192.0.2.1:2049 or [2001:db8::1]:2049"},
		{[]string{"serve", "--tcp", ":99999", "/"}, "--tcp :99999 is not an address with a port: write one such as :2049, 192.0.2.1:2049 or [2001:db8::1]:2049"},
		{[]string{"serve", "--crc=maybe", "/"}, `invalid argument "maybe" for "--crc" flag: not one of auto, on, off`},
		{[]string{"serve", "--markers=auto", "/"}, `invalid argument "auto" for "--markers" flag: not one of off, on`},
		{[]string{"serve", "--inline=1KB", "/"}, `invalid argument "1KB" for "--inline" flag: not a size: write bytes, or a number with KiB, MiB or GiB (below 2 GiB)`},
		{[]string{"serve", "--inline=1000", "/"}, "--inline 1000 is not between 1024 and 262144"},
		{[]string{"serve", "--credits=0", "/"}, "--credits 0 is not between 1 and 4096"},
		{[]string{"serve", "--max-payload=8MiB", "/"}, "--max-payload 8388608 is not between 4096 and 4194304"},
		{[]string{"serve", "--max-connections=0", "/"}, "--max-connections 0 is not between 1 and 65536"},
		{[]string{"serve", "--listen=", "/"}, "--listen needs an address, such as :20049"},
		{[]string{"serve", "--portmap=:111", "--register", "/"}, "--portmap replaces rpcbind, and --register uses it: choose one"},
		{[]string{"serve", "--vers=5", "/"}, "--vers 5: the versions are 3, 4.0, 4.1 and 4.2"},
		{[]string{"serve", "--vers=", "/"}, "--vers needs a version: 3, 4.0, 4.1 or 4.2"},
		{[]string{"serve", "--vers=4.2", "--register", "/"}, "--portmap and --register tell clients the ports of NFSv3, which --vers omits: omit them, or add 3 to --vers"},
		{[]string{"serve", "--xprtsec=mtls", "/"}, "/ is exported to * with xprtsec=mtls, but TLS is not enabled: give the daemon a certificate with --tls-cert and --tls-key, or write xprtsec=none"},
		{[]string{"serve", "--require-encryption", "/"}, "/ is exported to * without krb5p, and --require-encryption rejects unencrypted calls: write sec=krb5p, or give the daemon a certificate for TLS with --tls-cert and --tls-key"},
		{[]string{"serve", "--clients=host", "/"}, `--clients: "host" is neither an address nor a network such as 192.0.2.0/24 or 2001:db8::/32`},
		{[]string{"serve", "--idmap-domain=a@b", "/"}, `--idmap-domain: "a@b" is not a DNS domain name, such as example.org`},
		{[]string{"serve", "--standby", "/"}, "--standby needs --exports FILE: each export needs an fsid= that is the same on all hosts"},
		{[]string{"serve", "--fence=x", "/"}, "--fence is for --standby: add --standby, or omit it"},
		{[]string{"serve", "--standby=read-only", "--fence=x", "--exports=x"}, "--standby=read-only serves without a fence: write --standby, or omit --fence"},
		{[]string{"serve", "--standby", "--fence= ", "--exports=x"}, "--fence is blank: name a command, or omit it"},
		{[]string{"serve", "--standby", "--tenure-time=1ms", "--exports=x"}, "--tenure-time 1ms is not between 1s and 5m0s"},
		{[]string{"serve", "--standby", "--discover=:4791", "--exports=x"}, "--discover announces one host, and another one may serve with --standby: omit one of them"},
		{[]string{"serve", "=/x"}, `"=/x" names no directory: write DIR or DIR=/EXPORT`},
	} {
		status, stdout, stderr := runCommand(t, tt.args...)
		assert.Equal(t, cli.ExitUsage, status, tt.args)
		assert.Empty(t, stdout, tt.args)
		assert.Equal(t, "nfsrdmad: "+tt.want+"\n", stderr)
	}
}

func TestHelp(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/state") // the help prints this default
	status, stdout, _ := runCommand(t, "serve", "--help")
	assert.Equal(t, cli.ExitOK, status)
	for _, flag := range []string{
		"--ro", "--clients", "--no-root-squash", "--exclusive", "--exports", "--listen", "--tcp", "--portmap", "--register", "--manage-gids", "--inline", "--credits",
		"--max-payload", "--max-connections", "--crc", "--markers", "--no-extensions", "--idmap-domain", "--keytab", "--lease", "--nfs4-lease", "--state", "--log-level", "--log-format",
	} {
		assert.Contains(t, stdout, flag)
	}
	for line := range strings.Lines(stdout) {
		assert.LessOrEqual(t, len(line), 120, line)
	}
}

// TestErrors checks that the errors of a command that has started name the
// object and the remedy.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	state := t.TempDir()
	taken, err := openState(state)
	require.NoError(t, err)
	defer taken.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	port := l.Addr().String()

	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no directory", []string{filepath.Join(dir, "nosuch")}, filepath.Join(dir, "nosuch") + ": no such directory: create it, or correct the path"},
		{"a file", []string{file}, file + ": not a directory: serve its parent directory"},
		{
			"state in the export",
			[]string{"--state", filepath.Join(dir, "sub", "state"), dir + "=/x"},
			"the state directory " + filepath.Join(dir, "sub", "state") + " is inside " + dir + ", and clients could reach it: name another with --state",
		},
		{"state in use", []string{"--state", state, dir}, "another nfsrdmad uses the state directory " + state + ": stop that daemon, or name another directory with --state"},
		{"RDMA port in use", []string{"--listen", port, dir}, "cannot listen on " + port + ": the port is in use; choose another with --listen"},
		{
			"TCP port in use",
			[]string{"--tcp", port, dir},
			"cannot listen on " + port + ": the port is in use; choose another with --tcp (the kernel's NFS server uses 2049), or turn it off with --tcp \"\"",
		},
		{
			"portmapper's port in use",
			[]string{"--portmap", port, dir},
			"cannot listen on " + port + ": the port is in use; choose another with --portmap, or, if rpcbind uses the port, omit --portmap and register with it by --register",
		},
		{"foreign address", []string{"--listen", "192.0.2.1:20049", dir}, "cannot listen on 192.0.2.1:20049: this host has no such address; correct --listen"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"serve", "--state", t.TempDir(), "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--log-level=error"}
			status, stdout, stderr := runCommand(t, append(args, tt.args...)...)
			assert.Equal(t, cli.ExitError, status)
			assert.Empty(t, stdout)
			assert.Equal(t, "nfsrdmad: "+tt.want+"\n", stderr)
		})
	}
}
