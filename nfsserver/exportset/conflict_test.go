package exportset

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A fakePermissiveFS is a fakeRootFS in which everyone may do everything, and each name but
// "none" leads to a file.
type fakePermissiveFS struct{ fakeRootFS }

func (f *fakePermissiveFS) Lookup(_ context.Context, _ *vfs.Cred, _ vfs.Handle, name string) (h vfs.Handle, attr, dir vfs.MaybeAttr, _ error) {
	if name == "none" {
		return h, attr, dir, syscall.ENOENT
	}
	return vfs.Handle{}, vfs.MaybeAttr{OK: true, Attr: vfs.Attr{Type: vfs.TypeReg}}, dir, nil
}

func (f *fakePermissiveFS) Access(_ context.Context, _ *vfs.Cred, _ vfs.Handle, asked uint32) (uint32, vfs.MaybeAttr, error) {
	return asked, vfs.MaybeAttr{}, nil
}

// TestFenced checks that every change is deferred while clients may trust counter delegations
// from an earlier server.
func TestFenced(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "grants")
	require.NoError(t, os.WriteFile(marker, []byte("5m0s"), 0o600))
	k, err := delegserver.New(delegserver.Config{Marker: marker, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer k.Close()
	checkDeferred(t, newTestSet(t, &fakePermissiveFS{}, func(c *Config) { c.Grants = k }), true)
}

// TestTrusted checks that every change is deferred while clients may trust delegations from an
// earlier server, even by a server that itself grants none.
func TestTrusted(t *testing.T) {
	for name, holders := range map[string]*recall.Table{"delegations": recall.New(recall.Config{}), "none": nil} {
		t.Run(name, func(t *testing.T) {
			checkDeferred(t, newTestSet(t, &fakePermissiveFS{}, func(c *Config) { c.Trusted, c.Holders = func() bool { return true }, holders }), false)
		})
	}
}

// checkDeferred checks that every change is deferred; with an NFSv4 open too if opens is set.
func checkDeferred(t *testing.T, s *Set, opens bool) {
	ctx := context.Background()
	e := s.Snapshot().List()[0]
	root := e.FS.Root()
	p := Place{Dir: root, Name: "f"}
	announced := map[string]func(q *Request) error{
		"SETATTR":  func(q *Request) error { return q.BeforeSetAttr(ctx, root, &vfs.SetAttr{}) },
		"SETACL":   func(q *Request) error { return q.BeforeSetACL(ctx, root) },
		"SETXATTR": func(q *Request) error { return q.BeforeSetXattr(ctx, root) },
		"WRITE":    func(q *Request) error { return q.BeforeWrite(ctx, root) },
		"REMOVE":   func(q *Request) error { return q.BeforeUnlink(ctx, p) },
		"RENAME":   func(q *Request) error { return q.BeforeRename(ctx, p, Place{Dir: root, Name: "none"}) },
		"LINK":     func(q *Request) error { return q.BeforeLink(ctx, root, Place{Dir: root, Name: "none"}) },
		"CREATE":   func(q *Request) error { return q.BeforeMake(ctx, p, TruncateFile) },
	}
	if opens {
		announced["WRITE with an open"] = func(q *Request) error { return q.BeforeStateWrite(ctx, root) }
		announced["OPEN for writing"] = func(q *Request) error { return q.BeforeOpenWrite(ctx, root) }
	}
	for change, announce := range announced {
		var q Request
		var reply oncrpc.Reply
		q.Begin(s, peerAt(1), &rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, &reply)
		_, err := q.Open(ctx, s.AppendHandle(nil, e, &root))
		require.NoError(t, err)
		assert.ErrorIs(t, announce(&q), Later, change)
		q.End()
	}
}

// A fakeAliasFS is a fakePermissiveFS with a handle that has no key, for an object that has
// one.
type fakeAliasFS struct{ fakePermissiveFS }

func (f *fakeAliasFS) AppendKey(b []byte, _ vfs.Handle) ([]byte, error) { return b, syscall.EOPNOTSUPP }

func (f *fakeAliasFS) AppendAliasKey(b []byte, _ vfs.Handle) ([]byte, error) {
	return append(b, 7), nil
}

// TestAliasChanged checks that a change with a handle without a key recalls the object's
// delegations.
func TestAliasChanged(t *testing.T) {
	holders := recall.New(recall.Config{Now: func() time.Duration { return 0 }})
	s := newTestSet(t, &fakeAliasFS{}, func(c *Config) { c.Holders = holders })
	recalls := 0
	h := &recall.Holder{Owner: 5, Recall: func(recall.Changer) { recalls++ }}
	require.True(t, holders.Hold(h, []byte{7}))
	require.True(t, h.Confirm())
	e := s.Snapshot().List()[0]
	root := e.FS.Root()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var q Request
	var reply oncrpc.Reply
	q.Begin(s, peerAt(1), &rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, &reply)
	_, err := q.Open(t.Context(), s.AppendHandle(nil, e, &root))
	require.NoError(t, err)
	assert.ErrorIs(t, q.BeforeSetACL(ctx, root), Later)
	assert.Equal(t, 1, recalls)
	q.End()
}
