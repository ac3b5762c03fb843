package main

import (
	"flag"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/manual"
)

var update = flag.Bool("update", false, "write the help into the manual pages")

func TestManual(t *testing.T) {
	root := newApp(io.Discard, io.Discard).newRoot()
	require.NoError(t, manual.Check("../../contrib/man/mountrdma.8", map[string]string{
		"description": manual.Text(root.Long),
		"flags":       manual.Flags(root.Flags()) + manual.Flags(root.PersistentFlags()),
		"commands":    manual.Commands(root),
		"examples":    manual.Text("    " + root.Example[2:]),
	}, *update))
	a := newApp(io.Discard, io.Discard)
	helper, _ := a.newMountHelper()
	require.NoError(t, manual.Check("../../contrib/man/mount.nfsrdma.8", map[string]string{
		"options": manual.Text(a.mountHelp()),
		"flags":   manual.Flags(helper.Flags()),
	}, *update))
}
