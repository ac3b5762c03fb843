package main

import (
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/certauth"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestBundle checks that the commands accept the files of a bundle of nfsrdmad cert client as tar
// extracts them, and that they reject a certificate that has expired, that of another server's
// authority, and a server with another name, each with an error that says so.
func TestBundle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	issue := func(dir string, at time.Time) []string {
		a, err := certauth.Open(dir, func() time.Time { return at })
		require.NoError(t, err)
		bundle, _, err := a.IssueClient("laptop")
		require.NoError(t, err)
		files := extractBundle(t, bundle)
		return []string{"--xprtsec", "mtls", "--tls-ca", files + "/ca.pem", "--tls-cert", files + "/client.pem", "--tls-key", files + "/client.key"}
	}
	create := func(dir string, names ...string) {
		_, err := certauth.Create(dir, names, false, time.Now)
		require.NoError(t, err)
	}
	serve := func(dir string) (url string) {
		quiet := slog.New(slog.DiscardHandler)
		tls, err := rpctls.NewServer(rpctls.ServerConfig{Files: rpctls.Files{Cert: dir + "/server.pem", Key: dir + "/server.key", CA: dir + "/ca.pem"}, Log: quiet})
		require.NoError(t, err)
		s, err := nfsrdma.NewServer(nfsrdma.ServerConfig{TLS: tls, RDMATLS: true, Log: quiet, Exports: []nfsserver.Export{{
			Path: "/x", FS: mem.New(mem.Options{Size: 1 << 20}),
			Clients: exports.Everyone(exports.Options{Insecure: true, Xprtsec: exports.OfTransports(exports.TransportMTLS)}),
		}}})
		require.NoError(t, err)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		served := make(chan error, 1)
		go func() { served <- s.ServeRDMA(l) }()
		t.Cleanup(func() {
			assert.NoError(t, s.Close())
			assert.NoError(t, <-served)
		})
		return "nfs://" + l.Addr().String() + "/x"
	}
	create(dir, "server", "127.0.0.1")
	foreign, elsewhere := filepath.Join(t.TempDir(), "tls"), filepath.Join(t.TempDir(), "tls")
	create(foreign, "server", "127.0.0.1")
	create(elsewhere, "elsewhere")
	url := serve(dir)
	for _, tt := range []struct {
		name, url string
		flags     []string
		want      string // empty: success
	}{
		{"bundle", url, issue(dir, time.Now()), ""},
		{"expired", url, issue(dir, time.Now().AddDate(-2, 0, 0)), "client.pem ended on "},
		{"another authority", url, issue(foreign, time.Now()), "the certificate of the server 127.0.0.1 is signed by \"CN=nfsrdma server "},
		{"another name", serve(elsewhere), issue(elsewhere, time.Now()), `is for "elsewhere", and does not have the address 127.0.0.1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, _, stderr := runCommand(t, append([]string{"ls", tt.url}, tt.flags...)...)
			if tt.want == "" {
				assert.Equal(t, []any{cli.ExitOK, ""}, []any{status, stderr})
				return
			}
			assert.Equal(t, cli.ExitError, status)
			assert.Contains(t, stderr, tt.want)
		})
	}
}

// extractBundle extracts a bundle by tar(1), and returns the directory in it.
func extractBundle(t *testing.T, bundle []byte) string {
	dir := t.TempDir()
	name := filepath.Join(dir, "laptop.tar")
	require.NoError(t, os.WriteFile(name, bundle, 0o600))
	out, err := exec.CommandContext(t.Context(), "tar", "-C", dir, "-xf", name).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(dir, certauth.BundleDir)
}
