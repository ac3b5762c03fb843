package main

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/manual"
)

var update = flag.Bool("update", false, "write the help into the manual page")

func TestManual(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/var/lib") // ordinary users get root's defaults
	t.Setenv("XDG_RUNTIME_DIR", "/run")
	require.NoError(t, manual.Check("../../contrib/man/nfsrdmad.8", map[string]string{
		"commands": manual.Commands(newRoot()),
	}, *update))
}
