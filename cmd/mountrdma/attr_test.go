package main

import (
	"testing"

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
