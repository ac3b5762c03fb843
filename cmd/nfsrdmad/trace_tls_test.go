package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
)

// A recordingCaller Caller keeps what calls carry.
type recordingCaller struct {
	oncrpc.Caller
	mu       sync.Mutex
	callArgs [][]byte
}

// Call makes a call (oncrpc.Caller).
func (l *recordingCaller) Call(ctx context.Context, x *oncrpc.Exchange) error {
	args := append(bytes.Clone(x.Args), x.Item...)
	l.mu.Lock()
	l.callArgs = append(l.callArgs, args)
	l.mu.Unlock()
	return l.Caller.Call(ctx, x)
}

// TestTraceTLS follows calls of connections with TLS, over TCP and below MPA. The spans are
// as those of others, and have nothing in them that TLS hides: no content, name or handle of
// files, and nothing of certificates.
func TestTraceTLS(t *testing.T) {
	c := newSpanCollector(t)
	const name, content = "the name of a file", "the content of a file that nobody else may see"
	root := certtest.New(t, "a root that signs", time.Now())
	server, host := root.Issue(nil), root.Issue(nil)
	trusted := certtest.Bundle(root)
	heard := new(recordingCaller)
	t.Run("served", func(t *testing.T) { // the daemon's end sends the last spans
		s := startDaemon(t, "--trace", "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--rdma-tls", "require", "--xprtsec", "mtls",
			"--tls-cert", server.Cert, "--tls-key", server.Key, "--tls-ca", trusted, "--no-root-squash", "mem:=/x")
		for transport, overTCP := range map[string]bool{"rdma": false, "tcp": true} {
			secure := newTLSClient(t, rpctls.ClientConfig{Host: "server", Files: rpctls.Files{Cert: host.Cert, Key: host.Key, CA: trusted}, Mutual: true})
			client, err := nfsrdma.Dial(t.Context(), s.transportAddr(t, transport), nfsrdma.ClientConfig{
				TCP: overTCP, TLS: secure, Log: slog.New(slog.DiscardHandler),
				Wrap: func(next oncrpc.Caller) oncrpc.Caller { heard.Caller = next; return heard },
			})
			require.NoError(t, err)
			fs, err := client.Mount(t.Context(), "/x")
			require.NoError(t, err)
			file, err := fs.Create(t.Context(), transport+" "+name, 0o600)
			require.NoError(t, err)
			_, err = file.CopyFrom(t.Context(), strings.NewReader(content), 0)
			require.NoError(t, err)
			var read bytes.Buffer
			_, err = file.CopyTo(t.Context(), &read, 0)
			require.NoError(t, err)
			assert.Equal(t, content, read.String())
			require.NoError(t, client.Close())
		}
	})

	for _, proc := range []string{"nfs/CREATE", "nfs/WRITE", "nfs/READ"} {
		transports := make(map[string]bool)
		for _, span := range c.spans[proc] {
			transports[attributeMap(span.Attributes)["network.transport"]] = true
		}
		assert.Equal(t, map[string]bool{"rdma": true, "tcp": true}, transports, proc)
	}
	secrets := []string{name, content, "a root that signs"}
	for _, secret := range secrets {
		assert.False(t, bytes.Contains(c.text, []byte(secret)), secret)
	}
	require.NotEmpty(t, heard.callArgs)
	for _, args := range heard.callArgs { // handles among them
		const some = 12 // bytes
		for i := 0; i+some <= len(args); i += some {
			part := args[i : i+some]
			assert.False(t, len(bytes.Trim(part, "\x00")) > some/2 && bytes.Contains(c.text, part), "%q", part)
		}
	}
}
