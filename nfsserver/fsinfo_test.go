package nfsserver

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

func TestFSInfo(t *testing.T) {
	for _, payload := range []int{0, 8192} {
		g, _, fh := newScene(t, func(c *Config) { c.MaxPayload = payload })
		var res nfs3.FSInfoRes
		g.callNFS(nfs3.ProcFSInfo, &nfs3.HandleArgs{Object: fh[vfs.TypeDir]}, &res)
		assert.True(t, res.Attr.OK)
		want := uint32(payload)
		if payload == 0 {
			want = 1 << 20
		}
		assert.Equal(t, nfs3.FSInfoRes{
			Attr:  res.Attr,
			RTMax: want, RTPref: want, RTMult: 4096, WTMax: want, WTPref: want, WTMult: 4096, DTPref: 65536,
			MaxFileSize: math.MaxInt64, TimeDelta: nfs3.Time{Nsec: 1}, Properties: 0x1b,
		}, res)
	}
}

func TestFSStatPathConf(t *testing.T) {
	g, _, fh := newScene(t)
	var stat nfs3.FSStatRes
	g.callNFS(nfs3.ProcFSStat, &nfs3.HandleArgs{Object: fh[vfs.TypeDir]}, &stat)
	assert.True(t, stat.Attr.OK)
	assert.Equal(t, nfs3.FSStatRes{
		Attr: stat.Attr, TotalBytes: 6, FreeBytes: 5, AvailBytes: 4, TotalFiles: 3, FreeFiles: 2, AvailFiles: 1,
	}, stat)
	var conf nfs3.PathConfRes
	g.callNFS(nfs3.ProcPathConf, &nfs3.HandleArgs{Object: fh[vfs.TypeDir]}, &conf)
	assert.True(t, conf.Attr.OK)
	assert.Equal(t, nfs3.PathConfRes{
		Attr: conf.Attr, LinkMax: 32000, NameMax: 255, NoTrunc: true, ChownRestricted: true, CasePreserving: true,
	}, conf)
}
