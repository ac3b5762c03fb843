package nfsserver

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestWireTime checks that a time that NFSv3 cannot express becomes the nearest that it can.
func TestWireTime(t *testing.T) {
	latest := nfs3.Time{Sec: math.MaxUint32, Nsec: 999_999_999}
	for _, tt := range []struct {
		host vfs.Time
		wire nfs3.Time
	}{
		{vfs.Time{Sec: -62135596800}, nfs3.Time{}}, // time.Time{}
		{vfs.Time{Sec: -1, Nsec: 999_999_999}, nfs3.Time{}},
		{vfs.Time{Nsec: 1}, nfs3.Time{Nsec: 1}},
		{vfs.Time{Sec: math.MaxInt32 + 1, Nsec: 2}, nfs3.Time{Sec: math.MaxInt32 + 1, Nsec: 2}},
		{vfs.Time{Sec: math.MaxUint32, Nsec: 3}, nfs3.Time{Sec: math.MaxUint32, Nsec: 3}},
		{vfs.Time{Sec: math.MaxUint32 + 1}, latest},
		{vfs.Time{Sec: math.MaxInt64}, latest},
	} {
		assert.Equal(t, tt.wire, toWireTime(tt.host), "%+v", tt.host)
	}
}
