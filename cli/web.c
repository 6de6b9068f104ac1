/*
 * web.c: pgqrs web, pages and actions for a browser.
 *
 * SQL functions make the pages, pgqrs_report_page() and others; this file serves
 * them to requests that it admits: a request needs the name that this program
 * listens at, the token that it printed at its start, and for an action the secret
 * of a form of its own.
 *
 * Up to MAX_THREADS requests are served at a time, each by a thread with a
 * connection of its own.  Pages are made in read-only transactions.
 */
#include "pgqrs.h"

#ifndef HAVE_MICROHTTPD

int
web_main(char **arguments)
{
	pg_log_error("this program was built without libmicrohttpd");
	pg_log_error_hint("Install libmicrohttpd-dev, and build pgqrs again.");
	return EXIT_FAILURE;
}

#else

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/string.h"
#include "lib/ilist.h"

#define MAX_THREADS	   4
#define DEFAULT_LISTEN "127.0.0.1:8423"
#define SECRET_LENGTH  48
#define MAX_FORM	   (4 * 1024 * 1024)
#define MAX_CLIENTS	   64
#define IDLE_SECONDS   30
#define SLOW_SECONDS   60
#define FORM_BUFFER	   1024
#define SESSION_OPTIONS                                                             \
	"SET statement_timeout = '5s'; SET idle_in_transaction_session_timeout = '5s';" \
	" SET default_transaction_read_only = on"

/* What a browser may do with a page: show it, with this style, and send its forms here. */
#define CONTENT_POLICY \
	"default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

static char token[SECRET_LENGTH + 1];
static char csrf[SECRET_LENGTH + 1];
static char cookie_name[32];
static SimpleStringList host_names;
static bool has_actions;

/*
 * Clients, the one whose last request ended longest ago first.  A client that is slow
 * to send a request may be closed any time; MAX_CLIENTS of them leave room for more.
 */
typedef struct Client
{
	dlist_node node;
	int fd;
	bool is_served;
	time_t since;
} Client;

static dlist_head clients = DLIST_STATIC_INIT(clients);
static int nclients;
static pthread_mutex_t clients_lock = PTHREAD_MUTEX_INITIALIZER;

/* A request; its parameters are a JSON object that is being written. */
typedef struct Request
{
	struct MHD_Connection *http;
	struct MHD_PostProcessor *form;
	PQExpBufferData parameters;
	size_t size;
	bool is_too_large;
	bool is_broken;
	char csrf[SECRET_LENGTH + 1]; /* of the form */
} Request;

static __thread PGconn *conn;
static const char *const *conn_values;

/*
 * Secrets
 */

static void
make_secret(char *secret)
{
	unsigned char bytes[SECRET_LENGTH / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		pg_fatal("could not get random bytes: %m");
	for (int i = 0; i < sizeof(bytes); i++)
		snprintf(secret + 2 * i, 3, "%02x", bytes[i]);
}

/* Takes as long wherever they differ. */
static bool
is_secret(const char *secret, const char *given)
{
	unsigned char difference = 0;

	if (given == NULL || strlen(given) != SECRET_LENGTH)
		return false;
	for (int i = 0; i < SECRET_LENGTH; i++)
		difference |= secret[i] ^ given[i];
	return difference == 0;
}

/*
 * Parameters as JSON.  The server refuses what is no UTF-8.
 */

static void
append_json_string(PQExpBuffer json, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
	{
		unsigned char c = text[i];

		if (c == '"' || c == '\\')
			appendPQExpBuffer(json, "\\%c", c);
		else if (c < ' ')
			appendPQExpBuffer(json, "\\u%04x", c);
		else
			appendPQExpBufferChar(json, c);
	}
}

/* Begins a parameter, or goes on with it if its value comes in pieces. */
static void
add_parameter(Request *request, const char *key, const char *value,
			  size_t length, bool is_continued)
{
	PQExpBuffer json = &request->parameters;

	if (!is_continued)
	{
		appendPQExpBufferStr(json, json->len == 0 ? "{\"" : "\", \"");
		append_json_string(json, key, strlen(key));
		appendPQExpBufferStr(json, "\": \"");
	}
	append_json_string(json, value, length);
	request->size += length + (is_continued ? 0 : strlen(key));
	if (request->size > MAX_FORM || PQExpBufferBroken(json))
		request->is_too_large = true;
}

static enum MHD_Result
add_argument(void *arg, enum MHD_ValueKind kind, const char *key, const char *value)
{
	if (strcmp(key, "token") != 0)
		add_parameter(arg, key, value ? value : "", value ? strlen(value) : 0,
					  false);
	return MHD_YES;
}

static enum MHD_Result
add_field(void *arg, enum MHD_ValueKind kind, const char *key, const char *filename,
		  const char *content_type, const char *transfer_encoding,
		  const char *data, uint64_t offset, size_t size)
{
	Request *request = arg;

	if (request->is_too_large)
		return MHD_NO;
	if (strcmp(key, "csrf") == 0)
	{
		if (offset + size > SECRET_LENGTH)
		{
			*request->csrf = '\0';
			return MHD_YES;
		}
		memcpy(request->csrf + offset, data, size);
		request->csrf[offset + size] = '\0';
	}
	else
		add_parameter(request, key, data, size, offset > 0);
	return MHD_YES;
}

static const char *
parameters_of(Request *request)
{
	appendPQExpBufferStr(&request->parameters,
						 request->parameters.len == 0 ? "{}" : "\"}");
	return request->parameters.data;
}

/*
 * The database
 */

/* Connects, unless there is a connection; answers as open_connection(). */
static int
connect_database(char **message)
{
	PGresult *result;
	int code;

	if (conn && PQstatus(conn) == CONNECTION_OK &&
		PQtransactionStatus(conn) == PQTRANS_IDLE)
		return 0;
	code = open_connection(&conn, conn_values, message);
	if (code != 0)
		return code;
	result = PQexec(conn, SESSION_OPTIONS);
	if (PQresultStatus(result) != PGRES_COMMAND_OK)
	{
		*message = pg_strdup(PQresultErrorMessage(result));
		code = EXIT_TEMPORARY;
		PQfinish(conn);
		conn = NULL;
	}
	PQclear(result);
	return code;
}

static PGresult *
execute(const char *sql, int nparams, const char *const *values)
{
	return PQexecParams(conn, sql, nparams, NULL, values, NULL, NULL, 0);
}

/* Reads, once more if the connection turns out to be lost. */
static PGresult *
read_value(const char *sql, int nparams, const char *const *values)
{
	PGresult *result = execute(sql, nparams, values);
	char *message;

	if (PQstatus(conn) == CONNECTION_OK)
		return result;
	if (connect_database(&message) == 0)
	{
		PQclear(result);
		return execute(sql, nparams, values);
	}
	pg_free(message);
	return result;
}

/* An error as a page shows it. */
static void
append_error(PQExpBuffer text, const PGresult *result)
{
	static const char fields[] = {PG_DIAG_MESSAGE_DETAIL, PG_DIAG_MESSAGE_HINT};
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	if (message == NULL)
		appendPQExpBufferStr(text, PQresultErrorMessage(result));
	else
		appendPQExpBuffer(text, "%s: %s", sqlstate_of(result), message);
	for (int i = 0; i < lengthof(fields); i++)
	{
		const char *field = PQresultErrorField(result, fields[i]);

		if (field)
			appendPQExpBuffer(text, "\n%s", field);
	}
}

static void
append_rows(PQExpBuffer text, const PGresult *result)
{
	for (int row = 0; row < PQntuples(result); row++)
	{
		for (int column = 0; column < PQnfields(result); column++)
			appendPQExpBuffer(text, "%s: %s\n", PQfname(result, column),
							  PQgetvalue(result, row, column));
	}
}

/*
 * What is there but not readable, and what is not there, are the same: the
 * database answers both with the same error.
 */
static unsigned int
status_of(const PGresult *result)
{
	const char *sqlstate = sqlstate_of(result);

	return strcmp(sqlstate, "57014") == 0 ? MHD_HTTP_GATEWAY_TIMEOUT :
		is_transient(sqlstate)			  ? MHD_HTTP_SERVICE_UNAVAILABLE :
		strcmp(sqlstate, "PQ008") == 0	  ? MHD_HTTP_CONTENT_TOO_LARGE :
		strncmp(sqlstate, "PQ00", 4) == 0 && sqlstate[4] <= '5' ?
										 MHD_HTTP_NOT_FOUND :
		strncmp(sqlstate, "22", 2) == 0 ? MHD_HTTP_BAD_REQUEST :
		strcmp(sqlstate, "42501") == 0	? MHD_HTTP_FORBIDDEN :
		strncmp(sqlstate, "PQ", 2) == 0 ? MHD_HTTP_CONFLICT :
										  MHD_HTTP_INTERNAL_SERVER_ERROR;
}

/*
 * Responses
 */

static enum MHD_Result
respond(Request *request, unsigned int status, const char *type,
		const char *body, const char *header, const char *value)
{
	struct MHD_Response
		*response = MHD_create_response_from_buffer(strlen(body),
													unconstify(char *, body),
													MHD_RESPMEM_MUST_COPY);
	enum MHD_Result queued;

	if (response == NULL)
		return MHD_NO;
	MHD_add_response_header(response, "Content-Type", type);
	MHD_add_response_header(response, "Content-Security-Policy", CONTENT_POLICY);
	MHD_add_response_header(response, "Cache-Control", "no-store");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "X-Frame-Options", "DENY");
	MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
	if (header)
		MHD_add_response_header(response, header, value);
	queued = MHD_queue_response(request->http, status, response);
	MHD_destroy_response(response);
	return queued;
}

static enum MHD_Result
respond_text(Request *request, unsigned int status, const char *text)
{
	return respond(request, status, "text/plain; charset=utf-8", text, NULL, NULL);
}

static enum MHD_Result
respond_html(Request *request, unsigned int status, const char *html)
{
	return respond(request, status, "text/html; charset=utf-8", html, NULL, NULL);
}

/*
 * A page that says what came of a request, with the form again if an action was not
 * done; as text if it cannot be made.
 */
static enum MHD_Result
respond_answer(Request *request, unsigned int status, const char *parameters,
			   const char *statement, const char *answer)
{
	const char *values[] = {parameters, statement, status == MHD_HTTP_OK ? "t" : "f",
							answer, *request->csrf ? csrf : NULL};
	PGresult *result = execute("SELECT pgqrs_report_answer($1::jsonb, $2, $3, $4, $5)",
							   lengthof(values), values);
	enum MHD_Result queued;

	if (!has_succeeded(result) || PQgetisnull(result, 0, 0))
		queued = respond_text(request, status,
							  answer ? answer : "Nothing was done.\n");
	else
		queued = respond_html(request, status, PQgetvalue(result, 0, 0));
	PQclear(result);
	return queued;
}

/* The same for an error of the database. */
static enum MHD_Result
respond_error(Request *request, const PGresult *error, const char *parameters,
			  const char *statement)
{
	unsigned int status = status_of(error);
	PQExpBufferData text;
	enum MHD_Result queued;

	initPQExpBuffer(&text);
	append_error(&text, error);
	queued = respond_answer(request, status, parameters, statement, text.data);
	termPQExpBuffer(&text);
	return queued;
}

static enum MHD_Result
serve_page(Request *request, const char *page)
{
	const char *values[] = {page, parameters_of(request), has_actions ? csrf : NULL};
	PGresult *result = read_value("SELECT pgqrs_report_page($1, $2::jsonb, $3)",
								  3, values);
	enum MHD_Result queued;

	if (!has_succeeded(result))
		queued = respond_error(request, result, "{}", NULL);
	else if (PQgetisnull(result, 0, 0))
		queued = respond_answer(request, MHD_HTTP_NOT_FOUND, "{}", NULL,
								"There is no such page.");
	else
		queued = respond_html(request, MHD_HTTP_OK, PQgetvalue(result, 0, 0));
	PQclear(result);
	return queued;
}

static enum MHD_Result
serve_style(Request *request)
{
	PGresult *result = read_value("SELECT pgqrs_report_style()", 0, NULL);
	enum MHD_Result queued = !has_succeeded(result) ?
		respond_text(request, MHD_HTTP_SERVICE_UNAVAILABLE, "") :
		respond(request, MHD_HTTP_OK, "text/css; charset=utf-8",
				PQgetvalue(result, 0, 0), NULL, NULL);

	PQclear(result);
	return queued;
}

/* Executes the statement that the form asks for, in a transaction that may write. */
static enum MHD_Result
run_statement(Request *request, const char *parameters, const char *statement)
{
	PQExpBufferData text;
	enum MHD_Result queued;
	PGresult *result = PQexec(conn,
							  "BEGIN READ WRITE; SET LOCAL statement_timeout = '25s'");

	initPQExpBuffer(&text);
	if (has_succeeded(result))
	{
		PQclear(result);
		result = execute(statement, 0, NULL);
	}
	if (has_succeeded(result))
	{
		append_rows(&text, result);
		PQclear(result);
		result = PQexec(conn, "COMMIT");
	}
	else
		PQclear(PQexec(conn, "ROLLBACK"));
	if (PQstatus(conn) != CONNECTION_OK)
		queued = respond_text(request, MHD_HTTP_SERVICE_UNAVAILABLE,
							  "The connection to the database was lost. See whether the action was done before you repeat it.\n");
	else if (!has_succeeded(result))
		queued = respond_error(request, result, parameters, statement);
	else
		queued = respond_answer(request, MHD_HTTP_OK, parameters, statement,
								text.data);
	PQclear(result);
	termPQExpBuffer(&text);
	return queued;
}

static enum MHD_Result
serve_action(Request *request)
{
	const char *parameters = parameters_of(request);
	PGresult *result = read_value("SELECT pgqrs_report_action($1::jsonb)", 1,
								  &parameters);
	enum MHD_Result queued;

	if (!has_succeeded(result))
		queued = respond_error(request, result, parameters, NULL);
	else if (PQgetisnull(result, 0, 0))
		queued = respond_answer(request, MHD_HTTP_BAD_REQUEST, parameters, NULL,
								NULL);
	else
		queued = run_statement(request, parameters, PQgetvalue(result, 0, 0));
	PQclear(result);
	return queued;
}

/*
 * Clients
 */

static Client *
client_of(struct MHD_Connection *http)
{
	return MHD_get_connection_info(http, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* Its thread finds its end when it looks at it next. */
static void
shut_client(Client *client)
{
	shutdown(client->fd, SHUT_RDWR);
}

/* Makes room for one more, if there is none, by the end of the one that was idle longest. */
static void
make_room(void)
{
	dlist_iter iter;

	if (nclients < MAX_CLIENTS)
		return;
	dlist_foreach(iter, &clients)
	{
		Client *client = dlist_container(Client, node, iter.cur);

		if (!client->is_served)
		{
			shut_client(client);
			dlist_delete(&client->node);
			dlist_push_tail(&clients, &client->node);
			return;
		}
	}
}

static void
client_changed(void *arg, struct MHD_Connection *http, void **state,
			   enum MHD_ConnectionNotificationCode code)
{
	Client *client = *state;

	pthread_mutex_lock(&clients_lock);
	if (code == MHD_CONNECTION_NOTIFY_STARTED)
	{
		make_room();
		client = pg_malloc0(sizeof(Client));
		client->fd = MHD_get_connection_info(http, MHD_CONNECTION_INFO_CONNECTION_FD)
						 ->connect_fd;
		client->since = time(NULL);
		dlist_push_tail(&clients, &client->node);
		nclients++;
		*state = client;
	}
	else
	{
		dlist_delete(&client->node);
		nclients--;
		pg_free(client);
		*state = NULL;
	}
	pthread_mutex_unlock(&clients_lock);
}

/* A request is there, or its answer has been sent. */
static void
set_served(struct MHD_Connection *http, bool is_served)
{
	Client *client = client_of(http);

	pthread_mutex_lock(&clients_lock);
	client->is_served = is_served;
	client->since = time(NULL);
	dlist_delete(&client->node);
	dlist_push_tail(&clients, &client->node);
	pthread_mutex_unlock(&clients_lock);
}

/* Ends those that send a request, or read its answer, byte by byte. */
static void
end_slow_clients(void)
{
	time_t now = time(NULL);
	dlist_iter iter;

	pthread_mutex_lock(&clients_lock);
	dlist_foreach(iter, &clients)
	{
		Client *client = dlist_container(Client, node, iter.cur);

		if (now - client->since > SLOW_SECONDS)
			shut_client(client);
	}
	pthread_mutex_unlock(&clients_lock);
}

/*
 * Requests
 */

typedef struct HeaderCounts
{
	int host;
	int length;
	int encoding;
} HeaderCounts;

static enum MHD_Result
count_header(void *arg, enum MHD_ValueKind kind, const char *key, const char *value)
{
	HeaderCounts *counts = arg;

	counts->host += pg_strcasecmp(key, "Host") == 0;
	counts->length += pg_strcasecmp(key, "Content-Length") == 0;
	counts->encoding += pg_strcasecmp(key, "Transfer-Encoding") == 0;
	return MHD_YES;
}

/* Whether a proxy before this server must see the same end of the request as it does. */
static bool
has_clear_end(struct MHD_Connection *http)
{
	HeaderCounts counts = {0};

	MHD_get_connection_values(http, MHD_HEADER_KIND, count_header, &counts);
	return counts.host <= 1 && counts.length <= 1 && counts.encoding == 0;
}

/* Whether the request names this server, so that no other name leads to it. */
static bool
has_right_host(struct MHD_Connection *http)
{
	const char *host = MHD_lookup_connection_value(http, MHD_HEADER_KIND, "Host");

	return host && simple_string_list_member(&host_names, host);
}

/* An action comes from a page of this server, if the browser says from where. */
static bool
has_right_origin(struct MHD_Connection *http)
{
	const char *site = MHD_lookup_connection_value(http, MHD_HEADER_KIND,
												   "Sec-Fetch-Site");

	return site == NULL || strcmp(site, "same-origin") == 0;
}

/* Gives the token of the address to the browser, and takes it out of the address. */
static enum MHD_Result
set_cookie(Request *request)
{
	char cookie[128];
	struct MHD_Response *response;
	enum MHD_Result queued;

	snprintf(cookie, sizeof(cookie), "%s=%s; HttpOnly; SameSite=Strict; Path=/",
			 cookie_name, token);
	response = MHD_create_response_from_buffer(0, cookie, MHD_RESPMEM_MUST_COPY);
	if (response == NULL)
		return MHD_NO;
	MHD_add_response_header(response, "Set-Cookie", cookie);
	MHD_add_response_header(response, "Location", ".");
	MHD_add_response_header(response, "Cache-Control", "no-store");
	MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(response, "Content-Security-Policy", CONTENT_POLICY);
	queued = MHD_queue_response(request->http, MHD_HTTP_SEE_OTHER, response);
	MHD_destroy_response(response);
	return queued;
}

/* Refuses a request, or answers it without the database; MHD_NO: go on with it. */
static bool
check_request(Request *request, const char *url, const char *method,
			  enum MHD_Result *queued)
{
	struct MHD_Connection *http = request->http;
	bool is_post = strcmp(method, "POST") == 0;

	if (!has_clear_end(http))
		*queued = respond(request, MHD_HTTP_BAD_REQUEST, "text/plain; charset=utf-8",
						  "A request has one Host, and the length of its form.\n",
						  "Connection", "close");
	else if (!has_right_host(http))
		*queued = respond_text(request, MHD_HTTP_MISDIRECTED_REQUEST,
							   "This server has another name.\n");
	else if (!is_post && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		*queued = respond(request, MHD_HTTP_METHOD_NOT_ALLOWED,
						  "text/plain; charset=utf-8", "", "Allow",
						  "GET, HEAD, POST");
	else if (!is_post &&
			 is_secret(token,
					   MHD_lookup_connection_value(http, MHD_GET_ARGUMENT_KIND,
												   "token")))
		*queued = set_cookie(request);
	else if (!is_secret(token,
						MHD_lookup_connection_value(http, MHD_COOKIE_KIND,
													cookie_name)))
		*queued = respond_text(request, MHD_HTTP_FORBIDDEN,
							   "Open the address that pgqrs web printed when it started.\n");
	else if (is_post && (strcmp(url, "/do") != 0 || !has_actions))
		*queued = respond(request, MHD_HTTP_METHOD_NOT_ALLOWED,
						  "text/plain; charset=utf-8", "", "Allow", "GET, HEAD");
	else if (is_post && !has_right_origin(http))
		*queued = respond_text(request, MHD_HTTP_FORBIDDEN,
							   "An action has to come from a form of this server.\n");
	else
		return true;
	return false;
}

static enum MHD_Result
serve(Request *request, const char *url, bool is_post)
{
	char *message;
	enum MHD_Result queued;

	if (request->is_too_large)
		return respond_text(request, MHD_HTTP_CONTENT_TOO_LARGE,
							"The form is too large.\n");
	if (request->is_broken || *url != '/')
		return respond_text(request, MHD_HTTP_BAD_REQUEST, "That is no form.\n");
	if (is_post && !is_secret(csrf, request->csrf))
		return respond_text(request, MHD_HTTP_FORBIDDEN,
							"An action has to come from a form of this server.\n");
	if (connect_database(&message) != 0)
	{
		pg_log_error("%s", message);
		queued = respond_text(request, MHD_HTTP_SERVICE_UNAVAILABLE,
							  "There is no connection to the database.\n");
		pg_free(message);
		return queued;
	}
	if (is_post)
		return serve_action(request);
	if (strcmp(url, "/style.css") == 0)
		return serve_style(request);
	MHD_get_connection_values(request->http, MHD_GET_ARGUMENT_KIND,
							  add_argument, request);
	return serve_page(request, url + 1);
}

/* Is called when the head of a request is there, for each part of a form, and at its end. */
static enum MHD_Result
handle(void *arg, struct MHD_Connection *http, const char *url, const char *method,
	   const char *version, const char *upload, size_t *upload_size, void **state)
{
	Request *request = *state;
	bool is_post = strcmp(method, "POST") == 0;
	enum MHD_Result queued;

	if (request == NULL)
	{
		request = pg_malloc0(sizeof(Request));
		request->http = http;
		initPQExpBuffer(&request->parameters);
		*state = request;
		if (!check_request(request, url, method, &queued))
			return queued;
		if (is_post)
		{
			request->form = MHD_create_post_processor(http, FORM_BUFFER,
													  add_field, request);
			if (request->form == NULL)
				return respond_text(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
									"An action is a form.\n");
		}
		return MHD_YES;
	}
	if (*upload_size > 0)
	{
		if (request->form)
			request->is_broken |= MHD_post_process(request->form, upload,
												   *upload_size) != MHD_YES;
		*upload_size = 0;
		return MHD_YES;
	}
	if (request->form)
	{
		/* the last field is complete only then */
		request->is_broken |= MHD_destroy_post_processor(request->form) != MHD_YES;
		request->form = NULL;
	}
	set_served(http, true);
	return serve(request, url, is_post);
}

static void
request_ended(void *arg, struct MHD_Connection *http, void **state,
			  enum MHD_RequestTerminationCode code)
{
	Request *request = *state;

	set_served(http, false);
	if (request == NULL)
		return;
	if (request->form)
		MHD_destroy_post_processor(request->form);
	termPQExpBuffer(&request->parameters);
	pg_free(request);
	*state = NULL;
}

/*
 * Listening
 */

static void
add_host(const char *name, const char *port)
{
	char *host = psprintf("%s:%s", name, port);

	simple_string_list_append(&host_names, host);
	/* browsers leave that port out */
	if (strcmp(port, "80") == 0)
		simple_string_list_append(&host_names, name);
	pg_free(host);
}

static int
listen_at_path(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct stat found;
	mode_t mask;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(address.sun_path))
		usage_error("the path of a socket has less than %zu bytes",
					sizeof(address.sun_path));
	strcpy(address.sun_path, path);
	/* that of a server that has ended */
	if (lstat(path, &found) == 0 && S_ISSOCK(found.st_mode) &&
		connect(fd, (struct sockaddr *) &address, sizeof(address)) != 0 &&
		errno == ECONNREFUSED)
		unlink(path);
	mask = umask(077);
	if (fd < 0 || bind(fd, (struct sockaddr *) &address, sizeof(address)) != 0 ||
		listen(fd, SOMAXCONN) != 0)
		pg_fatal("could not listen at \"%s\": %m", path);
	umask(mask);
	simple_string_list_append(&host_names, "localhost");
	snprintf(cookie_name, sizeof(cookie_name), "pgqrs");
	return fd;
}

static bool
is_loopback(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(
			&((const struct sockaddr_in6 *) address)->sin6_addr);
	return ntohl(((const struct sockaddr_in *) address)->sin_addr.s_addr) >> 24 ==
		127;
}

static int
listen_at_address(const char *listen_at)
{
	struct sockaddr_storage address = {0};
	struct sockaddr_in *v4 = (struct sockaddr_in *) &address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *) &address;
	socklen_t length = sizeof(address);
	char *host = pg_strdup(listen_at);
	char *colon = strrchr(host, ':');
	char port[8];
	int number = colon ? atoi(colon + 1) : -1;
	int one = 1;
	int fd;

	if (colon == NULL || number < 0 || number > 65535 ||
		colon[1 + strspn(colon + 1, "0123456789")] != '\0' || colon[1] == '\0')
		usage_error("--listen is a path, or an address and a port such as " DEFAULT_LISTEN
					", not \"%s\"",
					listen_at);
	*colon = '\0';
	if (host[0] == '[' && colon > host + 1 && colon[-1] == ']')
	{
		colon[-1] = '\0';
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(number);
		if (inet_pton(AF_INET6, host + 1, &v6->sin6_addr) != 1)
			usage_error("\"%s\" is no address", host + 1);
		length = sizeof(*v6);
	}
	else
	{
		v4->sin_family = AF_INET;
		v4->sin_port = htons(number);
		if (inet_pton(AF_INET, host, &v4->sin_addr) != 1)
			usage_error("\"%s\" is no address", host);
		length = sizeof(*v4);
	}
	fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		pg_fatal("could not make a socket: %m");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *) &address, length) != 0 ||
		listen(fd, SOMAXCONN) != 0)
		pg_fatal("could not listen at %s: %m", listen_at);
	if (!is_loopback(&address))
		pg_log_warning(
			"others can reach this server: encryption and users are the job of a proxy before it");

	/* port 0: the system chose one */
	length = sizeof(address);
	getsockname(fd, (struct sockaddr *) &address, &length);
	snprintf(port, sizeof(port), "%d", ntohs(v4->sin_port));
	free(host);
	host = pg_strdup(listen_at);
	*strrchr(host, ':') = '\0';
	add_host(host, port);
	if (is_loopback(&address))
		add_host("localhost", port);
	snprintf(cookie_name, sizeof(cookie_name), "pgqrs_%s", port);
	free(host);
	return fd;
}

static void
wait_for_signal(const sigset_t *signals)
{
	static const struct timespec pause = {.tv_sec = 5};

	while (sigtimedwait(signals, NULL, &pause) < 0)
		end_slow_clients();
}

int
web_main(char **arguments)
{
	const char *listen_at = option_value("listen");
	const char *name = option_value("name");
	struct MHD_Daemon *server;
	sigset_t signals;
	char *message;
	int code;
	int fd;

	if (listen_at == NULL)
		listen_at = DEFAULT_LISTEN;
	has_actions = option_value("actions") != NULL;

	/* threads have them blocked, too */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);

	/* a server that does not answer keeps neither a page nor the end waiting */
	setenv("PGCONNECT_TIMEOUT", "5", 0);

	make_secret(token);
	make_secret(csrf);
	conn_values = connection_values();
	fd = strchr(listen_at, '/') ? listen_at_path(listen_at) :
								  listen_at_address(listen_at);
	if (name)
		simple_string_list_append(&host_names, name);

	code = connect_database(&message);
	if (code != 0)
	{
		pg_log_error("%s", message);
		if (strchr(listen_at, '/'))
			unlink(listen_at);
		return code;
	}
	PQfinish(conn);
	conn = NULL;

	server = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ERROR_LOG,
							  0, NULL, NULL, handle, NULL, MHD_OPTION_LISTEN_SOCKET,
							  fd, MHD_OPTION_THREAD_POOL_SIZE, MAX_THREADS,
							  MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS,
							  MHD_OPTION_CONNECTION_LIMIT, 8 * MAX_CLIENTS,
							  MHD_OPTION_STRICT_FOR_CLIENT, 1,
							  MHD_OPTION_NOTIFY_CONNECTION, client_changed,
							  NULL, MHD_OPTION_NOTIFY_COMPLETED, request_ended,
							  NULL, MHD_OPTION_END);
	if (server == NULL)
		pg_fatal("could not start the server");
	if (strchr(listen_at, '/'))
		printf("%s http://%s/?token=%s\n", listen_at,
			   name ? name : host_names.head->val, token);
	else
		printf("http://%s/?token=%s\n", name ? name : host_names.head->val, token);
	fflush(stdout);
	wait_for_signal(&signals);
	if (strchr(listen_at, '/'))
		unlink(listen_at);
	/* another signal ends what is left */
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
	MHD_stop_daemon(server);
	return 0;
}

#endif /* HAVE_MICROHTTPD */
