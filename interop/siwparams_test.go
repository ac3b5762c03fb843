//go:build interop

package interop

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// A siwSettings holds siw's parameters for starting connections.
type siwSettings struct {
	required, strict bool // mpa_crc_required, mpa_crc_strict
	peerToPeer       bool // peer_to_peer
	revision         int  // mpa_version
}

var crcWord = map[mpa.CRC]string{mpa.CRCOn: "on", mpa.CRCAuto: "auto", mpa.CRCOff: "off"}

// siwUsual holds siw's defaults.
var siwUsual = siwSettings{revision: 2}

func (s siwSettings) String() string {
	words := []string{fmt.Sprintf("revision %d", s.revision)}
	for _, w := range []struct {
		word string
		on   bool
	}{{"CRC required", s.required}, {"CRC strict", s.strict}, {"peer-to-peer", s.peerToPeer}} {
		if w.on {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, ", ")
}

// applySettings gives siw these settings until the test ends.
func (s siwSettings) applySettings(t *testing.T) {
	t.Helper()
	s.writeParameters(t)
	t.Cleanup(func() { siwUsual.writeParameters(t) })
}

func (s siwSettings) writeParameters(t *testing.T) {
	t.Helper()
	letter := map[bool]string{false: "N", true: "Y"}
	script := "cd /sys/module/siw/parameters"
	for _, p := range [][2]string{
		{"mpa_crc_required", letter[s.required]},
		{"mpa_crc_strict", letter[s.strict]},
		{"peer_to_peer", letter[s.peerToPeer]},
		{"mpa_version", fmt.Sprint(s.revision)},
	} {
		script += fmt.Sprintf(" && echo %[2]s >%[1]s && test $(cat %[1]s) = %[2]s", p[0], p[1])
	}
	mustInGuest(t, script)
}

// TestSiwSettings checks that the software RNIC and siw interoperate with each
// siw setting that changes how a connection starts, and with each of ours, in
// both roles.
func TestSiwSettings(t *testing.T) {
	sharedGuest(t)
	t.Run("siw initiates", siwInitiates)
	t.Run("siw responds", siwResponds)
	t.Run("siw responds, revision 1", siwUnenhanced)
	t.Run("siw refuses", siwRefuses)
	assert.Zero(t, buf.Default.Out(), "unreturned buffers")
}

// siwInitiates checks that siw's Request has siw's settings, and that our
// answer complies.
func siwInitiates(t *testing.T) {
	var (
		required   = siwSettings{required: true, revision: 2}
		strict     = siwSettings{strict: true, revision: 2}
		both       = siwSettings{required: true, strict: true, revision: 2}
		peerToPeer = siwSettings{peerToPeer: true, revision: 2}
		all        = siwSettings{required: true, peerToPeer: true, revision: 2}
		old        = siwSettings{revision: 1}
		oldCRC     = siwSettings{required: true, revision: 1}
	)
	for _, tt := range []struct {
		siw  siwSettings
		ours mpa.CRC
		crc  bool // negotiated
	}{
		{siwUsual, mpa.CRCOff, false},
		{siwUsual, mpa.CRCOn, true},
		{required, mpa.CRCOff, true},
		{required, mpa.CRCOn, true},
		{strict, mpa.CRCAuto, false},
		{both, mpa.CRCAuto, true},
		{peerToPeer, mpa.CRCAuto, false},
		{peerToPeer, mpa.CRCOn, true},
		{all, mpa.CRCAuto, true},
		{old, mpa.CRCAuto, false},
		{old, mpa.CRCOn, true},
		{oldCRC, mpa.CRCOff, true},
	} {
		t.Run(fmt.Sprintf("%v, our CRC %s", tt.siw, crcWord[tt.ours]), func(t *testing.T) {
			tt.siw.applySettings(t)
			seen := rpingServer(t, iwarp.Config{CRC: tt.ours}, 1)
			assert.EqualValues(t, tt.siw.revision, seen.Rev)
			assert.Equal(t, tt.crc, seen.CRC)
			assert.Equal(t, tt.siw.peerToPeer, seen.PeerToPeer)
			assert.False(t, seen.SendMarkers || seen.RecvMarkers)
		})
	}
}

// siwResponds checks siw's answer to our Request with each of siw's settings.
func siwResponds(t *testing.T) {
	for _, tt := range []struct {
		siw  siwSettings
		ours iwarp.Config
		crc  bool // negotiated
	}{
		{siwUsual, iwarp.Config{CRC: mpa.CRCOff}, false},
		{siwUsual, iwarp.Config{CRC: mpa.CRCOn}, true},
		{siwUsual, iwarp.Config{CRC: mpa.CRCOff, PeerToPeer: true}, false},
		{siwUsual, iwarp.Config{CRC: mpa.CRCOn, PeerToPeer: true}, true},
		// siw does not announce its CRC requirement to an initiator that
		// requests no CRC.
		{siwSettings{required: true, revision: 2}, iwarp.Config{CRC: mpa.CRCOff}, false},
		{siwSettings{required: true, strict: true, revision: 2}, iwarp.Config{CRC: mpa.CRCOn}, true},
		{siwSettings{strict: true, revision: 2}, iwarp.Config{CRC: mpa.CRCOff}, false},
		{siwSettings{peerToPeer: true, revision: 2}, iwarp.Config{CRC: mpa.CRCOn}, true},
		{siwSettings{peerToPeer: true, revision: 2}, iwarp.Config{CRC: mpa.CRCOn, PeerToPeer: true}, true},
		{siwSettings{revision: 1}, iwarp.Config{CRC: mpa.CRCOn}, true},
	} {
		name := fmt.Sprintf("%v, our CRC %s, peer-to-peer %t", tt.siw, crcWord[tt.ours.CRC], tt.ours.PeerToPeer)
		t.Run(name, func(t *testing.T) {
			tt.siw.applySettings(t)
			seen := rpingClient(t, tt.ours, 1)
			assert.EqualValues(t, mpa.Rev2, seen.Rev, "for any depth that siw requests")
			assert.Equal(t, tt.crc, seen.CRC)
			assert.Equal(t, tt.ours.PeerToPeer, seen.PeerToPeer)
			if seen.PeerToPeer {
				assert.Equal(t, mpa.RTRWrite, seen.RTR, "siw's choice of the three")
			}
		})
	}
}

// siwUnenhanced checks a Request of revision 1. This Request names no IRD, so
// siw reports none to rping, and rping's first RDMA Read fails in its own
// kernel. Until then all must be well.
func siwUnenhanced(t *testing.T) {
	for _, tt := range []struct {
		siw siwSettings
		crc mpa.CRC
	}{
		{siwUsual, mpa.CRCOff},
		{siwUsual, mpa.CRCOn},
		{siwSettings{revision: 1}, mpa.CRCOff},
		{siwSettings{required: true, revision: 1}, mpa.CRCOn},
	} {
		t.Run(fmt.Sprintf("%v, our CRC %s", tt.siw, crcWord[tt.crc]), func(t *testing.T) {
			tt.siw.applySettings(t)
			server := rpingListens(t, 1)
			e := newRpingEnd(t)
			c, err := iwarp.Open(iwarp.Config{CRC: tt.crc, Unenhanced: true}).Dial(e.ctx, sharedGuest(t).Addr(rpingPort), e.connConfig())
			require.NoError(t, err)
			defer c.Close()
			e.conn = c
			e.releaseMessage()
			assert.EqualValues(t, mpa.Rev1, c.(*iwarp.Conn).Params().Rev)
			assert.Equal(t, tt.crc == mpa.CRCOn, c.(*iwarp.Conn).Params().CRC)
			from, err := c.Register(make([]byte, rpingSize), rdma.RemoteRead)
			require.NoError(t, err)
			e.sendAdvertisement(rdma.Remote{STag: from.STag(), TO: from.TO()}, rpingSize)
			_, err = e.in.Wait(e.ctx)
			require.ErrorIs(t, err, io.EOF, "no Terminate")
			out, err := io.ReadAll(server)
			require.NoError(t, err)
			assert.Contains(t, string(out), "post send error", "rping knows the region to read")
		})
	}
}

// siwRefuses checks that siw rejects each of our settings that siw does not
// support.
func siwRefuses(t *testing.T) {
	strict := siwSettings{strict: true, revision: 2}
	for name, tt := range map[string]struct {
		siw  siwSettings
		ours iwarp.Config
	}{
		"Markers":    {siwUsual, iwarp.Config{CRC: mpa.CRCOff, Markers: true}},
		"strict CRC": {strict, iwarp.Config{CRC: mpa.CRCOn}},
	} {
		t.Run(name+", siw responds", func(t *testing.T) {
			tt.siw.applySettings(t)
			rpingListens(t, 1)
			e := newRpingEnd(t)
			_, err := iwarp.Open(tt.ours).Dial(e.ctx, sharedGuest(t).Addr(rpingPort), e.connConfig())
			var rejected *iwarp.RejectedError
			require.ErrorAs(t, err, &rejected)
			t.Logf("%v", err)
		})
		t.Run(name+", siw initiates", func(t *testing.T) {
			tt.siw.applySettings(t)
			l, err := iwarp.Open(tt.ours).Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer l.Close()
			client, err := sharedGuest(t).Open(t.Context(), fmt.Sprintf("rping -c -a 10.0.2.2 -p %d -C 1 -v", l.Addr().(*net.TCPAddr).Port))
			require.NoError(t, err)
			defer client.Close()
			e := newRpingEnd(t)
			req, err := l.Accept(e.ctx)
			require.NoError(t, err)
			e.conn, err = req.Accept(e.connConfig())
			if err == nil { // the loss of siw shows later
				defer e.conn.Close()
				_, err = e.in.Wait(e.ctx)
			}
			require.Error(t, err)
			require.NoError(t, e.ctx.Err())
			t.Logf("%v", err)
			out, err := io.ReadAll(client)
			require.NoError(t, err)
			assert.Contains(t, string(out), "RDMA_CM_EVENT_REJECTED")
		})
	}
}

// TestSiwSettingsNFS checks that Linux can mount nfsrdmad with the siw settings
// furthest from the defaults, and that mountrdma can copy to knfsd and back.
func TestSiwSettingsNFS(t *testing.T) {
	for _, s := range []siwSettings{
		{required: true, peerToPeer: true, revision: 2},
		{required: true, strict: true, revision: 2},
	} {
		t.Run(s.String(), func(t *testing.T) {
			d := startDaemon(t, "--no-root-squash")
			s.applySettings(t)
			linux := d.guestSite()
			linux.mountInGuest(t, "/mnt", linux.mountOptions("rdma"))
			mustInGuest(t, "cd /mnt && dd if=/dev/urandom of=a bs=64k count=50 2>/dev/null && sync && cp a b && cmp a b")
			unmountInGuest(t, "/mnt")
			a, err := os.ReadFile(filepath.Join(d.dir, "a"))
			require.NoError(t, err)
			b, err := os.ReadFile(filepath.Join(d.dir, "b"))
			require.NoError(t, err)
			require.Len(t, a, 50<<16)
			require.True(t, string(a) == string(b))

			url := fmt.Sprintf("nfs://%s/export/siw?mountport=%d", sharedGuest(t).Addr(20049), portOf(t, sharedGuest(t).Addr(20048)))
			back := filepath.Join(t.TempDir(), "back")
			runMountrdma(t, "cp", "--crc=on", filepath.Join(d.dir, "a"), url)
			runMountrdma(t, "cp", "--crc=on", url, back)
			mustInGuest(t, "rm /export/siw")
			b, err = os.ReadFile(back)
			require.NoError(t, err)
			require.True(t, string(a) == string(b))
		})
	}
}
