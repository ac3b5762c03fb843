package copytree

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

func TestTimes(t *testing.T) {
	for _, tt := range []struct {
		time time.Time
		want nfs3.Time
	}{
		{time.Unix(1, 2), nfs3.Time{Sec: 1, Nsec: 2}},
		{time.Unix(1<<32-1, 999_999_999), nfs3.Time{Sec: 1<<32 - 1, Nsec: 999_999_999}},
		{time.Unix(-1, 5), nfs3.Time{Nsec: 5}},                    // before 1970
		{time.Unix(1<<32, 5), nfs3.Time{Sec: 1<<32 - 1, Nsec: 5}}, // after 2106
	} {
		assert.Equal(t, tt.want, nfsTime(tt.time))
	}
	assert.True(t, time.Unix(1, 2).Equal(goTime(nfs3.Time{Sec: 1, Nsec: 2})))
}
