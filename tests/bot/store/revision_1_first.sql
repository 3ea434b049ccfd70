BEGIN TRANSACTION;
CREATE TABLE access (
	account TEXT NOT NULL, 
	subject_kind TEXT NOT NULL, 
	subject_id TEXT NOT NULL, 
	state TEXT NOT NULL, 
	display_name TEXT NOT NULL, 
	code_hash TEXT, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT, 
	decided_at BIGINT, 
	decided_by TEXT, 
	chat TEXT, 
	language TEXT NOT NULL, 
	CONSTRAINT pk_access PRIMARY KEY (subject_kind, subject_id)
);
CREATE TABLE accounts (
	name TEXT NOT NULL, 
	platform TEXT NOT NULL, 
	bot_id TEXT NOT NULL, 
	first_seen BIGINT NOT NULL, 
	last_seen BIGINT NOT NULL, 
	CONSTRAINT pk_accounts PRIMARY KEY (name), 
	CONSTRAINT uq_accounts_platform_bot_id UNIQUE (platform, bot_id)
);
INSERT INTO "accounts" VALUES('telegram','telegram','1001',1777636800123456,1777636800123456);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('1');
CREATE TABLE approval_grants (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	conversation TEXT NOT NULL, 
	person TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	coverage TEXT NOT NULL, 
	shown TEXT NOT NULL, 
	granted_by TEXT NOT NULL, 
	granted_at BIGINT NOT NULL, 
	CONSTRAINT uq_approval_grants_conversation_person_tool_coverage UNIQUE (conversation, person, tool, coverage)
);
CREATE TABLE approvals (
	prompt_id TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	call_id TEXT NOT NULL, 
	args_hash TEXT NOT NULL, 
	conversation TEXT NOT NULL, 
	requester TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	shown TEXT NOT NULL, 
	why TEXT NOT NULL, 
	coverage TEXT NOT NULL, 
	asked_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	reason_from TEXT, 
	decision TEXT, 
	reason TEXT NOT NULL, 
	decided_by TEXT, 
	decided_at BIGINT, 
	CONSTRAINT pk_approvals PRIMARY KEY (prompt_id), 
	CONSTRAINT uq_approvals_run_id_call_id_args_hash UNIQUE (run_id, call_id, args_hash)
);
CREATE TABLE conversations (
	"key" TEXT NOT NULL, 
	account TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	thread_id TEXT NOT NULL, 
	model TEXT, 
	created_at BIGINT NOT NULL, 
	agent TEXT, 
	skills_off TEXT, 
	timezone TEXT, 
	CONSTRAINT pk_conversations PRIMARY KEY ("key"), 
	CONSTRAINT fk_conversations_thread_id_owner FOREIGN KEY(thread_id, owner) REFERENCES threads (thread_id, owner) ON UPDATE CASCADE
);
INSERT INTO "conversations" VALUES('telegram:7','telegram','telegram:7','3c2791ce462646158ce12a6c03b6feda',NULL,1777636800123456,NULL,NULL,NULL);
CREATE TABLE deletions (
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	account TEXT NOT NULL, 
	asked_by TEXT NOT NULL, 
	asked_at BIGINT NOT NULL, 
	reply_key TEXT, 
	chat TEXT, 
	topic TEXT, 
	chat_kind TEXT, 
	language TEXT NOT NULL, 
	counts TEXT NOT NULL, 
	done_at BIGINT, 
	CONSTRAINT pk_deletions PRIMARY KEY (id)
);
CREATE TABLE effects (
	run_id TEXT NOT NULL, 
	call_id TEXT NOT NULL, 
	thread_id TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	state TEXT NOT NULL, 
	result TEXT NOT NULL, 
	started_at BIGINT NOT NULL, 
	done_at BIGINT, 
	CONSTRAINT pk_effects PRIMARY KEY (run_id, call_id)
);
CREATE TABLE inbox (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	account TEXT NOT NULL, 
	chat TEXT, 
	platform_message_id TEXT, 
	event TEXT NOT NULL, 
	received_at BIGINT NOT NULL, 
	state TEXT NOT NULL, 
	reason TEXT, 
	run_id TEXT
);
INSERT INTO "inbox" VALUES(1,'telegram','7','1','{"account":"telegram","dedupe_keys":["u:1"],"sent_at":"2026-05-01T12:00:00.123456Z","received_at":"2026-05-01T12:00:00.123456Z","address":{"account":"telegram","chat":"7","topic":null,"kind":"dm"},"platform_message_id":"1","sender":{"id":"7","display_name":"Ann","locale":null,"kind":"user"},"text":"hello","mention":true,"reply_to":null,"attachments":[],"continues":false,"bundle_key":null,"dictated":false,"chat_title":"","unread":"","type":"message"}',1777636800123456,'assigned',NULL,'00000000000000000000000000000001');
CREATE TABLE inbox_keys (
	account TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	inbox_id INTEGER NOT NULL, 
	CONSTRAINT pk_inbox_keys PRIMARY KEY (account, "key")
);
INSERT INTO "inbox_keys" VALUES('telegram','u:1',1);
CREATE TABLE instance (
	id INTEGER NOT NULL, 
	epoch INTEGER NOT NULL, 
	owner TEXT NOT NULL, 
	lease_until BIGINT, 
	CONSTRAINT pk_instance PRIMARY KEY (id)
);
INSERT INTO "instance" VALUES(1,1,'',NULL);
CREATE TABLE memories (
	owner TEXT NOT NULL, 
	body TEXT NOT NULL, 
	last_good TEXT, 
	broken TEXT, 
	updated_at BIGINT NOT NULL, 
	CONSTRAINT pk_memories PRIMARY KEY (owner)
);
CREATE TABLE memory_lists (
	conversation TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	facts TEXT NOT NULL, 
	shown_at BIGINT NOT NULL, 
	CONSTRAINT pk_memory_lists PRIMARY KEY (conversation)
);
CREATE TABLE memory_owners (
	owner TEXT NOT NULL, 
	off BOOLEAN NOT NULL, 
	changed INTEGER NOT NULL, 
	forgotten_at BIGINT, 
	CONSTRAINT pk_memory_owners PRIMARY KEY (owner)
);
CREATE TABLE memory_queue (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	run_id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	thread_id TEXT NOT NULL, 
	speaker TEXT NOT NULL, 
	conversation TEXT NOT NULL, 
	exchange TEXT NOT NULL, 
	queued_at BIGINT NOT NULL, 
	due_at BIGINT NOT NULL, 
	tries INTEGER NOT NULL, 
	CONSTRAINT uq_memory_queue_run_id UNIQUE (run_id)
);
CREATE TABLE outbox (
	reply_key TEXT NOT NULL, 
	part INTEGER NOT NULL, 
	idem_key TEXT NOT NULL, 
	account TEXT NOT NULL, 
	chat TEXT NOT NULL, 
	topic TEXT, 
	chat_kind TEXT NOT NULL, 
	reply_to TEXT, 
	message_id TEXT, 
	body TEXT NOT NULL, 
	desired_rev INTEGER NOT NULL, 
	sent_rev INTEGER NOT NULL, 
	final BOOLEAN NOT NULL, 
	numbered BOOLEAN NOT NULL, 
	epoch INTEGER NOT NULL, 
	created_at BIGINT NOT NULL, 
	delivered_at BIGINT, 
	abandoned TEXT, 
	sent_after TEXT, 
	CONSTRAINT pk_outbox PRIMARY KEY (reply_key, part)
);
CREATE TABLE prompts (
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	conversation TEXT NOT NULL, 
	run_id TEXT, 
	who TEXT, 
	options TEXT NOT NULL, 
	args_hash TEXT, 
	message_id TEXT, 
	expires_at BIGINT NOT NULL, 
	answer TEXT, 
	answered_by TEXT, 
	answered_at BIGINT, 
	expired BOOLEAN NOT NULL, 
	CONSTRAINT pk_prompts PRIMARY KEY (id)
);
CREATE TABLE run_events (
	run_id TEXT NOT NULL, 
	seq INTEGER NOT NULL, 
	type TEXT NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_run_events PRIMARY KEY (run_id, seq)
);
CREATE TABLE runs (
	seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	run_id TEXT NOT NULL, 
	thread_id TEXT NOT NULL, 
	conversation TEXT NOT NULL, 
	speaker TEXT NOT NULL, 
	inbox_ids TEXT NOT NULL, 
	reply_key TEXT NOT NULL, 
	account TEXT NOT NULL, 
	chat TEXT NOT NULL, 
	topic TEXT, 
	chat_kind TEXT NOT NULL, 
	reply_to TEXT, 
	state TEXT NOT NULL, 
	detail TEXT, 
	context TEXT NOT NULL, 
	input TEXT NOT NULL, 
	base_checkpoint_id TEXT, 
	head TEXT, 
	attempt INTEGER NOT NULL, 
	suspended BOOLEAN NOT NULL, 
	epoch INTEGER NOT NULL, 
	model_calls INTEGER NOT NULL, 
	created_at BIGINT NOT NULL, 
	started_at BIGINT, 
	ended_at BIGINT, 
	stop TEXT, 
	ahead INTEGER, 
	deaths TEXT NOT NULL, 
	CONSTRAINT uq_runs_run_id UNIQUE (run_id)
);
INSERT INTO "runs" VALUES(1,'00000000000000000000000000000001','thread','telegram:7','telegram:7','[1]','00000000000000000000000000000001','telegram','7',NULL,'dm','1','pending',NULL,'{"thread_id":"thread","run_id":"67d54746ee524a81bccf34bb4b123e66","account":"telegram","conversation":"telegram:7","owner":"telegram:7","speaker":{"id":"telegram:7","display_name":"Ann","is_admin":false,"is_person":true},"is_group":true,"locale":"en","model":"demo","agent":"default","schedule":"","skills_off":[],"timezone":"UTC"}','{"message_id":"m1","text":"hello","files":[],"quote":"","background":[],"dictated":false,"skill":"","steers":false,"steered":[]}',NULL,NULL,0,0,0,0,1777636800123456,NULL,NULL,NULL,NULL,'[]');
CREATE TABLE schedules (
	id TEXT NOT NULL, 
	account TEXT NOT NULL, 
	chat TEXT NOT NULL, 
	topic TEXT, 
	chat_kind TEXT NOT NULL, 
	reply_to TEXT, 
	conversation TEXT NOT NULL, 
	person TEXT NOT NULL, 
	name TEXT NOT NULL, 
	language TEXT NOT NULL, 
	text TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	spec TEXT NOT NULL, 
	timezone TEXT NOT NULL, 
	next_at BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	last_fired_at BIGINT, 
	state TEXT NOT NULL, 
	ended_at BIGINT, 
	CONSTRAINT pk_schedules PRIMARY KEY (id)
);
CREATE TABLE threads (
	thread_id TEXT NOT NULL, 
	conversation TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	title TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	touched_at BIGINT, 
	CONSTRAINT pk_threads PRIMARY KEY (thread_id), 
	CONSTRAINT uq_threads_thread_id_owner UNIQUE (thread_id, owner)
);
INSERT INTO "threads" VALUES('3c2791ce462646158ce12a6c03b6feda','telegram:7','telegram:7','',1777636800123456,NULL);
CREATE TABLE usage (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	run_id TEXT NOT NULL, 
	thread_id TEXT NOT NULL, 
	model TEXT NOT NULL, 
	input_tokens INTEGER NOT NULL, 
	output_tokens INTEGER NOT NULL, 
	cached_tokens INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	call TEXT, 
	conversation TEXT, 
	speaker TEXT, 
	cost BIGINT, 
	currency TEXT, 
	CONSTRAINT uq_usage_call UNIQUE (call)
);
INSERT INTO "usage" VALUES(1,'00000000000000000000000000000001','thread','demo',3,2,0,1777636800123456,'c','telegram:7','telegram:7',1,'USD');
CREATE INDEX ix_inbox_state_id ON inbox (state, id);
CREATE INDEX ix_inbox_received_at ON inbox (received_at);
CREATE INDEX ix_inbox_account_chat_platform_message_id ON inbox (account, chat, platform_message_id);
CREATE INDEX ix_inbox_keys_inbox_id ON inbox_keys (inbox_id);
CREATE INDEX ix_threads_conversation ON threads (conversation);
CREATE INDEX ix_threads_owner ON threads (owner);
CREATE INDEX ix_runs_state ON runs (state);
CREATE UNIQUE INDEX uq_runs_active ON runs (conversation) WHERE state IN ('running', 'waiting');
CREATE INDEX ix_runs_ended_at ON runs (ended_at);
CREATE INDEX ix_runs_conversation_seq ON runs (conversation, seq);
CREATE INDEX ix_outbox_delivered_at ON outbox (delivered_at);
CREATE INDEX ix_outbox_newest ON outbox (account, epoch, delivered_at) WHERE delivered_at IS NOT NULL;
CREATE INDEX ix_outbox_account_chat_created_at ON outbox (account, chat, created_at);
CREATE INDEX ix_prompts_expires_at ON prompts (expires_at);
CREATE INDEX ix_approvals_conversation_asked_at ON approvals (conversation, asked_at);
CREATE INDEX ix_schedules_account_chat_state ON schedules (account, chat, state);
CREATE INDEX ix_schedules_state_next_at ON schedules (state, next_at);
CREATE INDEX ix_schedules_person_state ON schedules (person, state);
CREATE INDEX ix_schedules_ended_at ON schedules (ended_at);
CREATE INDEX ix_memory_lists_shown_at ON memory_lists (shown_at);
CREATE INDEX ix_memory_queue_owner_due_at ON memory_queue (owner, due_at);
CREATE INDEX ix_memory_queue_queued_at ON memory_queue (queued_at);
CREATE INDEX ix_memory_queue_thread_id_speaker ON memory_queue (thread_id, speaker);
CREATE INDEX ix_access_account_state ON access (account, state);
CREATE INDEX ix_usage_speaker_at ON usage (speaker, at);
CREATE INDEX ix_usage_conversation_at ON usage (conversation, at);
CREATE INDEX ix_usage_at ON usage (at);
CREATE INDEX ix_usage_thread_id_run_id ON usage (thread_id, run_id);
CREATE INDEX ix_deletions_done_at ON deletions (done_at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('inbox',1);
INSERT INTO "sqlite_sequence" VALUES('runs',1);
INSERT INTO "sqlite_sequence" VALUES('usage',1);
COMMIT;
