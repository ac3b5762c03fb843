package nfsclient

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
)

// The handles of the captures' server.
var (
	rootFH = nfs3.FH{1, 0, 1, 0, 0, 0, 0, 0}
	dirFH  = nfs3.FH{1, 0, 1, 1, 0, 0, 0, 0, 0x2a, 0x91, 0x06, 0x9b, 3, 0, 0, 0, 0, 0, 0, 0}
	bigFH  = nfs3.FH{1, 0, 1, 1, 0, 0, 0, 0, 0xf6, 0x0c, 0xa2, 0x14, 5, 0, 0, 0, 0, 0, 0, 0}
	textFH = nfs3.FH{1, 0, 1, 1, 0, 0, 0, 0, 0xf3, 0x62, 0x70, 0x50, 2, 0, 0, 0, 0, 0, 0, 0}
)

// golden lists calls of Linux's client, and our equivalent calls.
var golden = []struct {
	file  string
	apart bool // the item travels apart
	call  func(ctx context.Context, c *Client) error
}{
	{"null", false, func(ctx context.Context, c *Client) error { return c.Null(ctx) }},
	{"getattr", false, func(ctx context.Context, c *Client) error {
		_, err := c.GetAttr(ctx, rootFH)
		return err
	}},
	{"setattr", false, func(ctx context.Context, c *Client) error {
		_, err := c.SetAttr(ctx, &nfs3.SetAttrArgs{Object: textFH, Attr: modeAttr(0o600)})
		return err
	}},
	{"lookup", false, func(ctx context.Context, c *Client) error {
		_, err := c.Lookup(ctx, rootFH, "big")
		return err
	}},
	{"access", false, func(ctx context.Context, c *Client) error {
		_, err := c.Access(ctx, rootFH, 0x1f)
		return err
	}},
	{"read", false, func(ctx context.Context, c *Client) error {
		_, err := c.Read(ctx, textFH, 0, make([]byte, 4096))
		return err
	}},
	{"write", true, func(ctx context.Context, c *Client) error {
		_, err := c.Write(ctx, bigFH, 0, make([]byte, 1<<18), nfs3.Unstable)
		return err
	}},
	{"create", false, func(ctx context.Context, c *Client) error {
		_, err := c.Create(ctx, &nfs3.CreateArgs{Where: dirOpArgs(rootFH, "big"), Attr: modeAttr(0o644)})
		return err
	}},
	{"symlink", false, func(ctx context.Context, c *Client) error {
		_, err := c.Symlink(ctx, &nfs3.SymlinkArgs{Where: dirOpArgs(rootFH, "link"), Attr: modeAttr(0o777), Path: []byte("small.txt")})
		return err
	}},
	{"remove", false, func(ctx context.Context, c *Client) error {
		_, err := c.Remove(ctx, dirFH, "big2")
		return err
	}},
	{"rename", false, func(ctx context.Context, c *Client) error {
		_, err := c.Rename(ctx, &nfs3.RenameArgs{From: dirOpArgs(rootFH, "big"), To: dirOpArgs(dirFH, "big2")})
		return err
	}},
	{"readdirplus", false, func(ctx context.Context, c *Client) error {
		_, _, err := c.ReadDirPlus(ctx, &nfs3.ReadDirPlusArgs{Dir: rootFH, DirCount: 64 << 10, MaxCount: 64 << 10}, func(*nfs3.Entry) {})
		return err
	}},
	{"fsstat", false, func(ctx context.Context, c *Client) error {
		_, err := c.FSStat(ctx, rootFH)
		return err
	}},
	{"fsinfo", false, func(ctx context.Context, c *Client) error {
		_, err := c.FSInfo(ctx, rootFH)
		return err
	}},
	{"pathconf", false, func(ctx context.Context, c *Client) error {
		_, err := c.PathConf(ctx, rootFH)
		return err
	}},
	{"commit", false, func(ctx context.Context, c *Client) error {
		_, err := c.Commit(ctx, bigFH, 0, 0)
		return err
	}},
}

// A fakeRecorder records the call and returns no results.
type fakeRecorder struct {
	x   oncrpc.Exchange
	msg []byte // from the XID on, as Linux sends it
}

var errRecorded = errors.New("recorded")

func (r *fakeRecorder) Call(_ context.Context, x *oncrpc.Exchange) error {
	r.x = *x
	r.msg = append(oncrpc.AppendCall(nil, 0, x, "rig"), x.Args...)
	return errRecorded
}

// TestGolden checks that our calls equal those of Linux's client, byte for
// byte.
func TestGolden(t *testing.T) {
	for _, tt := range golden {
		t.Run(tt.file, func(t *testing.T) {
			want := wiretest.Hex(t, "testdata/call-"+tt.file+".hex")
			var r fakeRecorder
			c := New(&r, Config{Cred: &rpcmsg.Cred{Flavor: rpcmsg.AuthSys}})
			assert.ErrorIs(t, tt.call(t.Context(), c), errRecorded)
			binary.BigEndian.PutUint32(r.msg, binary.BigEndian.Uint32(want)) // the XID
			if !tt.apart {
				r.msg = xdr.AppendFixed(r.msg, r.x.Item)
			}
			assert.Equal(t, want, r.msg)
		})
	}
}

// TestExchange checks that a call announces the bound of RFC 8267 for its
// results, less the data for Sink: R8267-3-1, R8267-3-2, R8267-4.1-1.
func TestExchange(t *testing.T) {
	for _, tt := range []struct {
		file    string
		results int
		sink    int
		item    int
	}{
		{"null", 0, 0, 0},
		{"getattr", 4 + 84, 0, 0},
		{"setattr", 4 + 28 + 88, 0, 0},
		{"lookup", 4 + 68 + 88 + 88, 0, 0},
		{"access", 4 + 88 + 4, 0, 0},
		{"read", 4 + 88 + 12, 4096, 0},
		{"write", 4 + 28 + 88 + 16, 0, 1 << 18},
		{"create", 4 + 72 + 88 + 28 + 88, 0, 0},
		{"symlink", 4 + 72 + 88 + 28 + 88, 0, 9},
		{"remove", 4 + 28 + 88, 0, 0},
		{"rename", 4 + 2*(28+88), 0, 0},
		{"readdirplus", 4 + 64<<10, 0, 0},
		{"fsstat", 4 + 88 + 52, 0, 0},
		{"fsinfo", 4 + 88 + 48, 0, 0},
		{"pathconf", 4 + 88 + 24, 0, 0},
		{"commit", 4 + 28 + 88 + 8, 0, 0},
	} {
		var r fakeRecorder
		c := New(&r, Config{})
		for _, g := range golden {
			if g.file == tt.file {
				assert.ErrorIs(t, g.call(t.Context(), c), errRecorded)
			}
		}
		assert.Equal(t, tt.results, r.x.MaxResults, tt.file)
		assert.Len(t, r.x.Sink, tt.sink, tt.file)
		assert.Len(t, r.x.Item, tt.item, tt.file)
	}
	var r fakeRecorder
	c := New(&r, Config{})
	_, err := c.ReadLink(t.Context(), rootFH)
	assert.ErrorIs(t, err, errRecorded)
	assert.Equal(t, 4+88+4, r.x.MaxResults)
	assert.Len(t, r.x.Sink, nfs3.MaxPath)
	_, _, err = c.ReadDir(t.Context(), &nfs3.ReadDirArgs{Dir: rootFH, Count: 1024}, nil)
	assert.ErrorIs(t, err, errRecorded)
	assert.Equal(t, 4+1024, r.x.MaxResults)
}
