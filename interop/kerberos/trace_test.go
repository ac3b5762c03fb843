//go:build interop

package kerberos

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A spanCollector takes spans over OTLP/HTTP.
type spanCollector struct {
	mu    sync.Mutex
	count map[string]int // spans by name and transport
	text  []byte         // all that came
}

// ServeHTTP takes an ExportTraceServiceRequest, which has the form of TracesData.
func (c *spanCollector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	var data tracepb.TracesData
	if proto.Unmarshal(b, &data) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, b...)
	for _, rs := range data.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				for _, a := range s.Attributes {
					if a.Key == "network.transport" {
						c.count[s.Name+" "+a.Value.GetStringValue()]++
					}
				}
			}
		}
	}
}

// A recordingCaller Caller keeps what calls carry: tokens with tickets, and what they protect.
type recordingCaller struct {
	oncrpc.Caller
	all [][]byte
}

// Call makes a call (oncrpc.Caller).
func (h *recordingCaller) Call(ctx context.Context, x *oncrpc.Exchange) error {
	h.all = append(h.all, bytes.Clone(x.Args))
	return h.Caller.Call(ctx, x)
}

// TestKerberosTrace follows calls with krb5p: the spans are as those of others, and have
// nothing in them that Kerberos hides, nor of tickets: no principal, token, file or content.
func TestKerberosTrace(t *testing.T) {
	c := &spanCollector{count: make(map[string]int)}
	receiver := httptest.NewServer(c)
	defer receiver.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	const name, content = "the name of a file", "the content of a file that nobody else may see"
	r := newRealm(t, enctypes[krb5.AES256SHA1])
	d := newDaemon(t, r, "krb5p:krb5i:krb5", "--trace")
	var all [][]byte
	for transport, line := range d.dialAll(t) {
		if transport == "bridge" {
			continue
		}
		root := rootOf(t, line)
		h := &recordingCaller{Caller: line}
		client, s := r.newSecureClient(h, rpcmsg.AuthKrb5p)
		made, err := client.CreateNew(t.Context(), nfs3.DirOpArgs{Dir: root, Name: []byte(name + transport)}, nfs3.SetAttr{})
		require.NoError(t, err)
		_, err = client.Write(t.Context(), made.Object, 0, []byte(content), nfs3.FileSync)
		require.NoError(t, err)
		got := make([]byte, len(content))
		_, err = client.Read(t.Context(), made.Object, 0, got)
		require.NoError(t, err)
		assert.Equal(t, content, string(got))
		s.Close(t.Context())
		all = append(append(all, h.all...), made.Object)
	}
	d.Signal(syscall.SIGTERM) // the last spans come with the end
	select {
	case <-d.Done():
	case <-time.After(mountLimit):
		t.Fatal("the daemon does not end")
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	for _, proc := range []string{"CREATE", "WRITE", "READ"} {
		for _, transport := range []string{"tcp", "rdma"} {
			assert.Equal(t, 1, c.count["nfs/"+proc+" "+transport], "%s over %s: %v", proc, transport, c.count)
		}
	}
	for _, secret := range []string{name, content, "alice", Realm, server} {
		assert.False(t, bytes.Contains(c.text, []byte(secret)), secret)
	}
	const some = 12 // bytes
	for _, args := range all {
		for i := 0; i+some <= len(args); i += some {
			part := args[i : i+some]
			assert.False(t, len(bytes.Trim(part, "\x00")) > some/2 && bytes.Contains(c.text, part), "%q", part)
		}
	}
}
