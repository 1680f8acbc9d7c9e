// Package watching keeps what watchers are told of users, and judges it: whether their view is the truth
// in the end, and whether on the way a stamp went back, or somebody who stayed was said to have gone or
// come. Tests in virtual time and with real processes share it.
//
//	o := watching.New("client 7", steady)
//	config.OnPresence = func(users []schema.WatchedUser) { o.Take(users...) }
//	...
//	verdict := watching.Judge(onlookers, found)
//	require.True(t, verdict.Fair(), verdict)
//
// It starts no goroutine.
package watching
