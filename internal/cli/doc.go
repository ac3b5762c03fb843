// Package cli is the common part of the commands: how a program runs and ends,
// values of flags, and the version.
//
//	main ─▶ Run ─▶ cobra ─▶ the command ─▶ error ─▶ one line, exit status 1
//	                 └─ not understood ─▶ error ─▶ one line, exit status 2
//
// It must not know the effect of a command.
package cli
