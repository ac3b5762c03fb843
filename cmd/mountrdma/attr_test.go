package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

func TestModeString(t *testing.T) {
	for want, a := range map[string]nfs3.Attr{
		"-rw-r--r--": {Type: nfs3.TypeReg, Mode: 0o644},
		"drwxrwxrwt": {Type: nfs3.TypeDir, Mode: 0o1777},
		"lrwxrwxrwx": {Type: nfs3.TypeLnk, Mode: 0o777},
		"-rwsr-x--x": {Type: nfs3.TypeReg, Mode: 0o4751},
		"-rwSr-S--T": {Type: nfs3.TypeReg, Mode: 0o7640},
		"p---------": {Type: nfs3.TypeFIFO},
		"?---------": {Type: 99},
	} {
		assert.Equal(t, want, modeString(&a))
	}
}

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
