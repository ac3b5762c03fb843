//go:build interop

package interop

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// removedOpen uses a file by one mount that another one removes. The mounts
// share no cache, so Linux does not rename the file instead. The pages are
// dropped, so that the data come from the server.
const removedOpen = `set -e
drop() { sync; echo 3 >/proc/sys/vm/drop_caches; }
echo before >/mnt/f; drop
exec 3<>/mnt/f 4</mnt/f 5</mnt/f
rm /mnt2/f
[ -z "$(ls -A /mnt2)" ]
cat <&4
printf AFTER >&3; drop
cat <&5
! cat /mnt2/f 2>/dev/null
exec 3>&- 4<&- 5<&-
`

// TestRemovedOpen4 checks that a file that another client removes is there until
// it is closed.
func TestRemovedOpen4(t *testing.T) {
	sharedGuest(t)
	for _, transport := range []string{"rdma", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			d := startDaemon(t, "--no-root-squash")
			before := d.openFiles()
			s := d.guestSite().withVersion("4.2")
			options := s.mountOptions(transport) + ",nosharecache"
			s.mountInGuest(t, "/mnt", options)
			s.mountInGuest(t, "/mnt2", options)
			assert.Equal(t, "before\nAFTERe\n", mustInGuest(t, removedOpen))
			unmountInGuest(t, "/mnt2")
			unmountInGuest(t, "/mnt")
			d.checkDescriptors(before)
			d.stopGracefully()
			assert.NotContains(t, d.stderr.String(), "level=WARN")
		})
	}
}
